/** The swap panel: sends or previews a control message and follows its outcome until it is live. */

import type { ControlPosition, ControlReply, Generation, Preview, StatusRow, TopicInfo, User } from "../../protocol/api_types.js";
import { get, post } from "../../protocol/http.js";
import { byId, descriptionList, element, setText } from "../ui/dom.js";
import { outcomeKind } from "../ui/format.js";
import { formatClock, formatDuration, formatTime } from "../ui/time_format.js";
import { MessageEditor } from "./message_editor.js";
import { describePreview, describeReply } from "./reply_text.js";
import { RollbackButton } from "./rollback_button.js";
import { TopicPeekView } from "./topic_peek.js";
import { TopicPicker, describeTopic } from "./topic_picker.js";

const JOIN_DESCRIPTIONS: Record<string, string> = {
  "": "The current join.",
  left: "Every user once, with the newest account.",
  inner: "Every pair of a user and an account; users without an account are left out.",
  left_outer: "Every pair, and each user without an account once.",
};
const TOPIC_FIELDS = ["usersTopic", "accountsTopic"] as const;

type SentMessage = ControlReply & { sentAt: number }; // performance.now(): the wall clock can be set

export class SwapPanel {
  #panel = byId("control");
  #form = byId<HTMLFormElement>("ask");
  #openButton = byId("change");
  #topics: TopicInfo[] = [];
  #pickers: Map<string, TopicPicker>;
  #editor = new MessageEditor(byId("message-json"), byId("schema-findings"));
  #peek = new TopicPeekView(byId("peek"));
  #rollback: RollbackButton;
  #editsJson = false;
  #sending = false;
  #pending: SentMessage | null = null; // its outcome is still open

  constructor() {
    this.#rollback = new RollbackButton(
      (expectedGeneration) => void this.#send("api/v1/rollback", JSON.stringify({ expectedGeneration })),
    );
    this.#pickers = new Map(
      TOPIC_FIELDS.map((name) => [name, new TopicPicker(this.#field(name), () => this.#topics)]),
    );
    this.#openButton.addEventListener("click", () => this.toggle());
    byId("close").addEventListener("click", () => this.#setOpen(false));
    this.#panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#setOpen(false);
    });
    for (const button of this.#panel.querySelectorAll<HTMLElement>("[data-peek]")) {
      const picker = this.#pickers.get(button.dataset["peek"] ?? "");
      button.addEventListener("click", () => void this.#peek.load(picker?.topic ?? ""));
    }
    for (const [name, picker] of this.#pickers) {
      // while typing: on `change` alone the text could move a button between mouse down and mouse up
      for (const type of ["input", "change"]) picker.input.addEventListener(type, () => this.#describeTopic(name));
    }
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      const action = (event.submitter as HTMLButtonElement | null)?.value;
      void (action === "preview" ? this.#preview() : this.#apply());
    });
    byId("edit-form").addEventListener("click", () => this.#editAs(false));
    byId("edit-json").addEventListener("click", () => this.#editAs(true));
    this.#field("joinType").addEventListener("change", () => this.#describeJoin());
    this.#describeJoin();
  }

  toggle(): void {
    this.#setOpen(Boolean(this.#panel.hidden));
  }

  /** Disable the form for viewers, with the reason. */
  setUser({ role, label }: User): void {
    const allowed = role === "operator";
    const who = label ? ` (signed in as ${label})` : "";
    const reason = allowed ? "" : `Read-only: your role is ${role}${who}. Swaps and rollbacks require the role operator.`;
    setText(byId("read-only-note"), reason);
    byId("read-only-note").hidden = allowed;
    byId<HTMLFieldSetElement>("fields").disabled = !allowed;
    this.#rollback.forbid(reason);
    this.#openButton.title = allowed ? "Change topics or join (s)" : reason;
  }

  /** Position of the control message whose outcome is still open, or null. */
  get pendingPosition(): ControlPosition | null {
    return this.#pending;
  }

  /** The pending message's row of `control_raw` has changed. */
  updatePending(row: ControlReply | undefined): void {
    const pending = this.#pending;
    if (row === undefined || pending === null || row.outcome === pending.outcome) return;
    this.#showReply({ ...pending, outcome: row.outcome, reason: row.reason });
  }

  /** The existing generations: at most one each is live, standby and building. */
  setGenerations(generations: Generation[]): void {
    const inState = (state: string) => generations.find((generation) => generation.state === state);
    const current = inState("building") ?? inState("live"); // blank fields keep its values
    this.#rollback.setGenerations(inState("live"), inState("standby"));
    for (const name of TOPIC_FIELDS) this.#field(name).placeholder = current?.[name] ?? "";
    setText(
      this.#field<HTMLSelectElement>("joinType").options[0]!,
      current ? `keep ${current.joinType}` : "keep",
    );
    for (const name of TOPIC_FIELDS) this.#describeTopic(name);
  }

  setStatus({ state, progress, message }: StatusRow): void {
    const building = state === "building";
    byId("build").hidden = !building;
    byId<HTMLProgressElement>("build-progress").value = Number(progress);
    setText(byId("build-title"), building ? (message ?? "") : "");
  }

  #setOpen(open: boolean): void {
    this.#panel.hidden = !open;
    this.#openButton.setAttribute("aria-expanded", String(open));
    (open ? this.#field("usersTopic") : this.#openButton).focus();
    if (open) void this.#loadTopics();
  }

  async #loadTopics(): Promise<void> {
    const response = await get<{ topics: TopicInfo[] }>("api/v1/topics");
    if (response.ok) this.#topics = response.body.topics;
    const error = response.ok ? "" : `Topics could not be listed; names can still be entered. ${response.error}`;
    setText(byId("topics-error"), error);
    for (const name of TOPIC_FIELDS) this.#describeTopic(name);
  }

  #describeTopic(field: string): void {
    const name = this.#pickers.get(field)?.topic ?? "";
    const topic = this.#topics.find((known) => known.name === name);
    const unknown = name && this.#topics.length ? `there is no topic ${name}` : "";
    setText(byId(`${field}-info`), topic ? describeTopic(topic) : unknown);
  }

  #describeJoin(): void {
    setText(byId("join-description"), JOIN_DESCRIPTIONS[this.#field("joinType").value] ?? "");
  }

  #editAs(json: boolean): void {
    this.#editsJson = json;
    byId("form-fields").hidden = json;
    byId("json-fields").hidden = !json;
    byId("edit-form").setAttribute("aria-pressed", String(!json));
    byId("edit-json").setAttribute("aria-pressed", String(json));
    if (json) void this.#editor.open(this.#formValues());
  }

  #field<T extends HTMLElement = HTMLInputElement>(name: string): T {
    return this.#form.elements.namedItem(name) as unknown as T;
  }

  /** The fields that are not blank. */
  #formValues(): Record<string, string> {
    const values = [...TOPIC_FIELDS, "joinType"].map((name) => [name, this.#field(name).value.trim()] as const);
    return Object.fromEntries(values.filter(([, value]) => value));
  }

  /** The message to send, or null after showing what is wrong. */
  #message(): string | null {
    if (this.#editsJson) {
      const written = this.#editor.message;
      if (written === null) this.#show("bad", "The message does not match the schema; see below.");
      return written;
    }
    const values = this.#formValues();
    if (Object.keys(values).length) return JSON.stringify(values);
    this.#show("bad", "Nothing is filled in: enter a topic or choose a join.");
    return null;
  }

  async #apply(): Promise<void> {
    const message = this.#message();
    if (message === null || !(await this.#send("api/v1/control", message)) || this.#editsJson) return;
    this.#form.reset();
    this.#describeJoin();
  }

  async #preview(): Promise<void> {
    const message = this.#message();
    const preview = message === null ? null : await this.#post<Preview>("api/v1/preview", message);
    if (!preview) return;
    const rejected = preview.outcome === "rejected";
    const heading = rejected ? "Apply would be rejected:" : "Nothing is changed yet. Apply would do this:";
    this.#show(rejected ? "bad" : "", heading);
    byId("answer").append(descriptionList(describePreview(preview)));
  }

  /** Returns whether livejoin accepted it. */
  async #send(path: string, message: string): Promise<boolean> {
    const sentAt = performance.now();
    const reply = await this.#post<ControlReply>(path, message);
    if (reply) this.#showReply({ ...reply, sentAt });
    return reply !== null;
  }

  /** The response, or null after showing the error. */
  async #post<T>(path: string, message: string): Promise<T | null> {
    if (this.#sending) return null;
    this.#sending = true;
    this.#pending = null;
    this.#show("busy", "Waiting for livejoin …");
    const response = await post<T>(path, message);
    this.#sending = false;
    if (response.ok) return response.body;
    const hint = response.status === 0 ? " After reconnecting, control_raw shows whether the message arrived." : "";
    this.#show("bad", response.error + hint);
    return null;
  }

  #showReply(reply: SentMessage): void {
    const kind = outcomeKind(reply.outcome);
    this.#pending = kind === "busy" ? reply : null;
    this.#show(kind, describeReply(reply));
    if (reply.outcome !== "live") return;
    const now = Date.now();
    const took = formatDuration(performance.now() - reply.sentAt);
    const text = `Cut over at ${formatClock(now)}, ${took} after the request. Every open table shows it.`;
    byId("answer").append(element("p", { id: "cutover", title: formatTime(now) }, text));
  }

  #show(kind: string, text: string): void {
    const target = byId("answer");
    target.dataset["kind"] = kind;
    target.replaceChildren(element("p", {}, text));
  }
}
