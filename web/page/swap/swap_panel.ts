/** The swap panel: sends or previews a control message and follows its outcome until it is live. */

import type {
  ControlPosition,
  ControlReply,
  Generation,
  JoinSpec,
  Preview,
  StatusRow,
  User,
} from "../../protocol/api_types.js";
import { post } from "../../protocol/http.js";
import { browseTopic } from "../topics/topic_browser.js";
import { byId, descriptionList, element, setText } from "../ui/dom.js";
import { outcomeKind } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { closeOnEscape } from "../ui/shortcuts.js";
import { formatClock, formatDuration, formatTime } from "../ui/time_format.js";
import { correctionButtons } from "./corrections.js";
import { CurrentChoice } from "./current_choice.js";
import { MessageEditor } from "./message_editor.js";
import { describeJoin, topicFields } from "./message_fields.js";
import { describePreview, describeReply } from "./reply_text.js";
import type { FormField } from "./message_fields.js";
import { RollbackButton } from "./rollback_button.js";
import { TopicInput } from "./topic_input.js";
import { TopicList } from "./topic_list.js";

type SentMessage = ControlReply & { sentAt: number }; // performance.now(): the wall clock can be set

export class SwapPanel {
  #panel = byId("control");
  #form = byId<HTMLFormElement>("ask");
  #openButton = byId("change");
  #topics = new TopicList(() => this.#showTopics());
  #spec: JoinSpec | null = null;
  #inputs: TopicInput[] = []; // one for each source, once the spec is known
  #blank: Generation | undefined; // what blank fields keep
  #current = new CurrentChoice();
  #editor = new MessageEditor(byId("message-json"), byId("schema-findings"));
  #rollback: RollbackButton;
  #editsJson = false;
  #sending = false;
  #pending: SentMessage | null = null; // its outcome is still open

  constructor() {
    this.#rollback = new RollbackButton(
      (expectedGeneration) => void this.#send("api/v1/rollback", JSON.stringify({ expectedGeneration })),
    );
    this.#openButton.addEventListener("click", () => this.toggle());
    byId("close").addEventListener("click", () => this.#setOpen(false));
    closeOnEscape(this.#panel, () => this.#setOpen(false));
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      const action = (event.submitter as HTMLButtonElement | null)?.value;
      void (action === "preview" ? this.#preview() : this.#apply());
    });
    byId("edit-form").addEventListener("click", () => this.#editAs(false));
    byId("edit-json").addEventListener("click", () => this.#editAs(true));
    this.#field("joinType").addEventListener("change", () => this.#describeJoin());
  }

  /** Show a field for the topic of each source, and the joins that these sources can have. What is filled in stays. */
  setSpec(spec: JoinSpec): void {
    if (JSON.stringify(spec.control) === JSON.stringify(this.#spec?.control)) return;
    this.#spec = spec;
    const create = (field: FormField) => new TopicInput(field, () => this.#topics.topics, browseTopic);
    const known = new Map(this.#inputs.map((input) => [input.name, input]));
    this.#inputs = topicFields(spec).map((field) => known.get(field.name) ?? create(field));
    byId("topic-fields").replaceChildren(...this.#inputs.flatMap(({ elements }) => elements));
    const select = this.#field<HTMLSelectElement>("joinType");
    const chosen = select.value;
    select.replaceChildren(select.options[0]!, ...spec.control.joins.map((join) => element("option", {}, join)));
    select.value = spec.control.joins.includes(chosen) ? chosen : "";
    this.#editor.forgetSchema();
    this.#showBlank();
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
    this.#openButton.classList.toggle("primary", allowed); // it is not the main thing that a viewer can do
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
    this.#blank = inState("building") ?? inState("live");
    this.#current.setGenerations(inState("live"), inState("building"));
    this.#rollback.setGenerations(inState("live"), inState("standby"));
    this.#showBlank();
  }

  #showBlank(): void {
    const current = this.#blank;
    for (const input of this.#inputs) {
      input.current = current?.[input.name] ?? "";
      input.describe();
    }
    setText(
      this.#field<HTMLSelectElement>("joinType").options[0]!,
      current ? `keep ${current.joinType}` : "keep",
    );
  }

  /** Wall-clock time of the last heartbeat, or 0 while they come. */
  setStale(since: number): void {
    this.#current.setStale(since);
  }

  setStatus(row: StatusRow): void {
    const { state, progress, message } = row;
    const building = state === "building";
    this.#current.setStatus(row);
    byId("build").hidden = !building;
    byId<HTMLProgressElement>("build-progress").value = Number(progress);
    setText(byId("build-title"), building ? (message ?? "") : "");
  }

  #setOpen(open: boolean): void {
    this.#panel.hidden = !open;
    this.#openButton.setAttribute("aria-expanded", String(open));
    if (!open) this.#openButton.focus();
    else if (byId<HTMLFieldSetElement>("fields").disabled) byId("close").focus();
    else this.#inputs[0]?.focus();
    this.#topics.follow(open);
  }

  #showTopics(): void {
    if (this.#panel.matches(":active")) return; // a text that takes another line would move the pressed button
    setText(byId("topics-error"), this.#topics.error);
    for (const input of this.#inputs) input.describe();
  }

  #describeJoin(): void {
    if (this.#spec) setText(byId("join-description"), describeJoin(this.#field("joinType").value, this.#spec));
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
    const topics = this.#inputs.map(({ name, value }) => [name, value]);
    const values = [...topics, ["joinType", this.#field("joinType").value]];
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
    for (const input of this.#inputs) input.describe();
  }

  async #preview(): Promise<void> {
    const message = this.#message();
    const preview = message === null ? null : await this.#post<Preview>("api/v1/preview", message);
    if (!preview) return;
    const rejected = preview.outcome === "rejected";
    const heading = rejected ? "Apply would be rejected:" : "Nothing is changed yet. Apply would do this:";
    this.#show(rejected ? "bad" : "", heading);
    byId("answer").append(descriptionList(describePreview(preview)));
    if (rejected) this.#offerCorrections();
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
    this.#showWarnings((response.body as ControlReply | null)?.warnings);
    if (response.status === 422) this.#offerCorrections();
    return null;
  }

  /** After a rejection. */
  #offerCorrections(): void {
    const written = (name: string) => ({
      name,
      value: this.#editor.value(name),
      correct: (value: string) => this.#editor.setValue(name, value),
    });
    const entered = (input: TopicInput) => ({
      name: input.name,
      value: input.value,
      correct: (value: string) => void (input.value = value),
    });
    const buttons = correctionButtons([
      ...this.#inputs.map((input) => ({
        ...(this.#editsJson ? written(input.name) : entered(input)),
        known: this.#topics.data,
      })),
      ...(this.#editsJson ? [{ ...written("joinType"), known: this.#spec?.control.joins ?? [] }] : []),
    ]);
    if (buttons.length) byId("answer").append(element("p", { class: "corrections" }, ...buttons));
  }

  #showReply(reply: SentMessage): void {
    const kind = outcomeKind(reply.outcome);
    this.#pending = kind === "busy" ? reply : null;
    this.#show(kind, describeReply(reply));
    this.#showWarnings(reply.warnings);
    if (reply.outcome !== "live") return;
    const now = Date.now();
    const took = formatDuration(performance.now() - reply.sentAt);
    const text = `Cut over at ${formatClock(now)}, ${took} after the request. Every open table shows it.`;
    byId("answer").append(element("p", { id: "cutover", title: formatTime(now) }, text));
  }

  #showWarnings(warnings: string[] = []): void {
    for (const warning of warnings) {
      byId("answer").append(element("p", { class: "warning" }, icon("warning"), `${warning}; it is ignored`));
    }
  }

  #show(kind: string, text: string): void {
    const target = byId("answer");
    target.dataset["kind"] = kind;
    target.replaceChildren(element("p", {}, text));
  }
}
