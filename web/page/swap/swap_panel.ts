/** The swap panel: asks for a change or a preview of it, and tells what becomes of it until it is live. */

import { ask, post } from "../../protocol/http.js";
import { byId, facts, make, put } from "../ui/dom.js";
import { Editor } from "./message_editor.js";
import { Peek } from "./topic_peek.js";
import { Picker, holds } from "./topic_picker.js";
import type { Topic } from "./topic_picker.js";
import type { Person } from "../ui/signed_in_user.js";
import { clock, moment, span } from "../ui/time_format.js";
import { answered, kindOf, previewed } from "../../protocol/api_types.js";
import type { Answer, Generation, Preview, Status } from "../../protocol/api_types.js";
import { WayBack } from "./rollback_button.js";

const JOINS: Record<string, string> = {
  "": "As it is now.",
  left: "Every user once, with the newest account.",
  inner: "Every pair of a user and an account; users without one are left out.",
  left_outer: "Every pair, and users without an account once.",
};
const TOPICS = ["usersTopic", "accountsTopic"] as const;
const LEFT = /about (\d+) s left/;

export class Control {
  #panel = byId("control");
  #form = byId<HTMLFormElement>("ask");
  #opener = byId("change");
  #topics: Topic[] = [];
  #pickers: Map<string, Picker>;
  #editor = new Editor(byId("raw"), byId("findings"));
  #peek = new Peek(byId("peek"));
  #wayBack: WayBack;
  #json = false;
  #busy = false;
  #followed: (Answer & { askedAt: number }) | null = null;

  constructor() {
    this.#wayBack = new WayBack(
      (expected) => void this.#send("api/v1/rollback", JSON.stringify({ expectedGeneration: expected })),
    );
    this.#pickers = new Map(TOPICS.map((name) => [name, new Picker(this.#field(name), () => this.#topics)]));
    this.#opener.addEventListener("click", () => this.toggle());
    byId("close").addEventListener("click", () => this.#open(false));
    this.#panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#open(false);
    });
    for (const one of this.#panel.querySelectorAll<HTMLElement>("[data-peek]")) {
      one.addEventListener(
        "click",
        () => void this.#peek.look(this.#pickers.get(one.dataset["peek"] ?? "")?.topic ?? ""),
      );
    }
    for (const [name, picker] of this.#pickers) picker.input.addEventListener("change", () => this.#holds(name));
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      const how = (event.submitter as HTMLButtonElement | null)?.value;
      void (how === "preview" ? this.#preview() : this.#apply());
    });
    byId("as-form").addEventListener("click", () => this.#write(false));
    byId("as-json").addEventListener("click", () => this.#write(true));
    this.#field("joinType").addEventListener("change", () => this.#explain());
    this.#explain();
  }

  toggle(): void {
    this.#open(Boolean(this.#panel.hidden));
  }

  /** Who may only look is told so, and cannot press what would be refused. */
  person({ role, label }: Person): void {
    const may = role === "operator";
    const why = may
      ? ""
      : `You may look but not change what is live${label ? ` (signed in as ${label})` : ""}. Ask somebody with the role operator, or sign in with an operator's token.`;
    put(byId("only-look"), why);
    byId("only-look").hidden = may;
    byId<HTMLFieldSetElement>("fields").disabled = !may;
    this.#wayBack.forbid(why);
    this.#opener.title = may ? "Change topics or join (s)" : why;
  }

  /** The offset of the message whose outcome is still open, if any. */
  get followed(): number | null {
    return this.#followed?.offset ?? null;
  }

  /** What became of the message since, from `control_raw`. */
  became(row: Answer | undefined): void {
    const before = this.#followed;
    if (row === undefined || before === null || row.outcome === before.outcome) return;
    this.#answer({ ...before, outcome: row.outcome, reason: row.reason });
  }

  /** Generations that exist: at most one each is live, standing by, being built. */
  generations(generations: Generation[]): void {
    const find = (state: string) => generations.find((one) => one.state === state);
    const kept = find("building") ?? find("live"); // what a field that is left blank stands for
    this.#wayBack.generations(find("live"), find("standby"));
    for (const name of TOPICS) this.#field(name).placeholder = kept?.[name] ?? "";
    put(this.#field<HTMLSelectElement>("joinType").options[0]!, kept ? `keep ${kept.joinType}` : "keep");
    for (const name of TOPICS) this.#holds(name);
  }

  status({ state, progress, message }: Status): void {
    const building = state === "building";
    const left = LEFT.exec(message ?? "")?.[1];
    byId("build").hidden = !building;
    byId<HTMLProgressElement>("build-progress").value = Number(progress);
    put(
      byId("build-text"),
      building ? `${progress} %${left === undefined ? "" : `, about ${span(1000 * Number(left))} left`}` : "",
    );
    put(byId("build-what"), building ? ((message ?? "").split(":")[0] ?? "") : "");
  }

  #open(yes: boolean): void {
    this.#panel.hidden = !yes;
    this.#opener.setAttribute("aria-expanded", String(yes));
    (yes ? this.#field("usersTopic") : this.#opener).focus();
    if (yes) void this.#list();
  }

  async #list(): Promise<void> {
    const answer = await ask<{ topics: Topic[] }>("api/v1/topics");
    if (answer.ok) this.#topics = answer.body.topics;
    put(
      byId("topics-trouble"),
      answer.ok ? "" : `The topics cannot be listed; names can still be typed. ${answer.why}`,
    );
    for (const name of TOPICS) this.#holds(name);
  }

  #holds(name: string): void {
    const chosen = this.#pickers.get(name)?.topic ?? "";
    const topic = this.#topics.find((one) => one.name === chosen);
    const unknown = chosen && this.#topics.length ? `there is no topic ${chosen}` : "";
    put(byId(`${name}-holds`), topic ? holds(topic) : unknown);
  }

  #explain(): void {
    put(byId("join-means"), JOINS[this.#field("joinType").value] ?? "");
  }

  #write(json: boolean): void {
    this.#json = json;
    byId("form-fields").hidden = json;
    byId("json-fields").hidden = !json;
    byId("as-form").setAttribute("aria-pressed", String(!json));
    byId("as-json").setAttribute("aria-pressed", String(json));
    if (json) void this.#editor.open(this.#filled());
  }

  #field<T extends HTMLElement = HTMLInputElement>(name: string): T {
    return this.#form.elements.namedItem(name) as unknown as T;
  }

  #filled(): Record<string, string> {
    const names = [...TOPICS, "joinType"];
    return Object.fromEntries(
      names.map((name) => [name, this.#field(name).value.trim()] as const).filter(([, value]) => value),
    );
  }

  /** The message to send, or null after saying why there is none. */
  #message(): string | null {
    if (this.#json) {
      const written = this.#editor.message;
      if (written === null) this.#say("bad", "The message does not fit the schema; see below it.");
      return written;
    }
    const filled = this.#filled();
    if (Object.keys(filled).length) return JSON.stringify(filled);
    this.#say("bad", "Nothing is filled in: name a topic or choose a join.");
    return null;
  }

  async #apply(): Promise<void> {
    const message = this.#message();
    if (message === null || !(await this.#send("api/v1/control", message)) || this.#json) return;
    this.#form.reset();
    this.#explain();
  }

  async #preview(): Promise<void> {
    const message = this.#message();
    const preview = message === null ? null : await this.#post<Preview>("api/v1/preview", message);
    if (!preview) return;
    const rejected = preview.outcome === "rejected";
    this.#say(
      rejected ? "bad" : "",
      rejected ? "Apply would do nothing:" : "Nothing is changed yet. Apply would do this:",
    );
    byId("answer").append(facts(previewed(preview)));
  }

  /** Whether it was taken. */
  async #send(path: string, message: string): Promise<boolean> {
    const askedAt = performance.now(); // the wall clock can be set
    const answer = await this.#post<Answer>(path, message);
    if (answer) this.#answer({ ...answer, askedAt });
    return answer !== null;
  }

  /** The answer, or null after saying why there is none. */
  async #post<T>(path: string, message: string): Promise<T | null> {
    if (this.#busy) return null;
    this.#busy = true;
    this.#followed = null;
    this.#say("busy", "Asking …");
    const answer = await post<T>(path, message);
    this.#busy = false;
    if (answer.ok) return answer.body;
    const lost = answer.status === 0 ? " Once it is back, control_raw shows whether the message arrived." : "";
    this.#say("bad", answer.why + lost);
    return null;
  }

  #answer(answer: Answer & { askedAt: number }): void {
    const kind = kindOf(answer.outcome);
    this.#followed = kind === "busy" ? answer : null;
    this.#say(kind, answered(answer));
    if (answer.outcome !== "live") return;
    const now = Date.now();
    const cut = make(
      "p",
      { id: "cutover", title: moment(now) },
      `Cut over at ${clock(now)}, ${span(performance.now() - answer.askedAt)} after you asked. Every open table shows it.`,
    );
    byId("answer").append(cut);
  }

  #say(kind: string, text: string): void {
    const answer = byId("answer");
    answer.dataset["kind"] = kind;
    answer.replaceChildren(make("p", {}, text));
  }
}
