/** The swap panel: sends or previews a control message and follows its outcome until it is live. */
import { get, post } from "../../protocol/http.js";
import { byId, descriptionList, element, setText } from "../ui/dom.js";
import { outcomeKind } from "../ui/format.js";
import { formatClock, formatDuration, formatTime } from "../ui/time_format.js";
import { MessageEditor } from "./message_editor.js";
import { describePreview, describeReply } from "./reply_text.js";
import { RollbackButton } from "./rollback_button.js";
import { TopicPeekView } from "./topic_peek.js";
import { TopicPicker, describeTopic } from "./topic_picker.js";
const JOIN_DESCRIPTIONS = {
    "": "The current join.",
    left: "Every user once, with the newest account.",
    inner: "Every pair of a user and an account; users without an account are left out.",
    left_outer: "Every pair, and each user without an account once.",
};
const TOPIC_FIELDS = ["usersTopic", "accountsTopic"];
export class SwapPanel {
    #panel = byId("control");
    #form = byId("ask");
    #openButton = byId("change");
    #topics = [];
    #pickers;
    #editor = new MessageEditor(byId("message-json"), byId("schema-findings"));
    #peek = new TopicPeekView(byId("peek"));
    #rollback;
    #editsJson = false;
    #sending = false;
    #pending = null; // its outcome is still open
    constructor() {
        this.#rollback = new RollbackButton((expectedGeneration) => void this.#send("api/v1/rollback", JSON.stringify({ expectedGeneration })));
        this.#pickers = new Map(TOPIC_FIELDS.map((name) => [name, new TopicPicker(this.#field(name), () => this.#topics)]));
        this.#openButton.addEventListener("click", () => this.toggle());
        byId("close").addEventListener("click", () => this.#setOpen(false));
        this.#panel.addEventListener("keydown", (event) => {
            if (event.key === "Escape")
                this.#setOpen(false);
        });
        for (const button of this.#panel.querySelectorAll("[data-peek]")) {
            const picker = this.#pickers.get(button.dataset["peek"] ?? "");
            button.addEventListener("click", () => void this.#peek.load(picker?.topic ?? ""));
        }
        for (const [name, picker] of this.#pickers) {
            // while typing: on `change` alone the text could move a button between mouse down and mouse up
            for (const type of ["input", "change"])
                picker.input.addEventListener(type, () => this.#describeTopic(name));
        }
        this.#form.addEventListener("submit", (event) => {
            event.preventDefault();
            const action = event.submitter?.value;
            void (action === "preview" ? this.#preview() : this.#apply());
        });
        byId("edit-form").addEventListener("click", () => this.#editAs(false));
        byId("edit-json").addEventListener("click", () => this.#editAs(true));
        this.#field("joinType").addEventListener("change", () => this.#describeJoin());
        this.#describeJoin();
    }
    toggle() {
        this.#setOpen(Boolean(this.#panel.hidden));
    }
    /** Disable the form for viewers, with the reason. */
    setUser({ role, label }) {
        const allowed = role === "operator";
        const who = label ? ` (signed in as ${label})` : "";
        const reason = allowed ? "" : `Read-only: your role is ${role}${who}. Swaps and rollbacks require the role operator.`;
        setText(byId("read-only-note"), reason);
        byId("read-only-note").hidden = allowed;
        byId("fields").disabled = !allowed;
        this.#rollback.forbid(reason);
        this.#openButton.title = allowed ? "Change topics or join (s)" : reason;
    }
    /** Position of the control message whose outcome is still open, or null. */
    get pendingPosition() {
        return this.#pending;
    }
    /** The pending message's row of `control_raw` has changed. */
    updatePending(row) {
        const pending = this.#pending;
        if (row === undefined || pending === null || row.outcome === pending.outcome)
            return;
        this.#showReply({ ...pending, outcome: row.outcome, reason: row.reason });
    }
    /** The existing generations: at most one each is live, standby and building. */
    setGenerations(generations) {
        const inState = (state) => generations.find((generation) => generation.state === state);
        const current = inState("building") ?? inState("live"); // blank fields keep its values
        this.#rollback.setGenerations(inState("live"), inState("standby"));
        for (const name of TOPIC_FIELDS)
            this.#field(name).placeholder = current?.[name] ?? "";
        setText(this.#field("joinType").options[0], current ? `keep ${current.joinType}` : "keep");
        for (const name of TOPIC_FIELDS)
            this.#describeTopic(name);
    }
    setStatus({ state, progress, message }) {
        const building = state === "building";
        byId("build").hidden = !building;
        byId("build-progress").value = Number(progress);
        setText(byId("build-title"), building ? (message ?? "") : "");
    }
    #setOpen(open) {
        this.#panel.hidden = !open;
        this.#openButton.setAttribute("aria-expanded", String(open));
        (open ? this.#field("usersTopic") : this.#openButton).focus();
        if (open)
            void this.#loadTopics();
    }
    async #loadTopics() {
        const response = await get("api/v1/topics");
        if (response.ok)
            this.#topics = response.body.topics;
        const error = response.ok ? "" : `Topics could not be listed; names can still be entered. ${response.error}`;
        setText(byId("topics-error"), error);
        for (const name of TOPIC_FIELDS)
            this.#describeTopic(name);
    }
    #describeTopic(field) {
        const name = this.#pickers.get(field)?.topic ?? "";
        const topic = this.#topics.find((known) => known.name === name);
        const unknown = name && this.#topics.length ? `there is no topic ${name}` : "";
        setText(byId(`${field}-info`), topic ? describeTopic(topic) : unknown);
    }
    #describeJoin() {
        setText(byId("join-description"), JOIN_DESCRIPTIONS[this.#field("joinType").value] ?? "");
    }
    #editAs(json) {
        this.#editsJson = json;
        byId("form-fields").hidden = json;
        byId("json-fields").hidden = !json;
        byId("edit-form").setAttribute("aria-pressed", String(!json));
        byId("edit-json").setAttribute("aria-pressed", String(json));
        if (json)
            void this.#editor.open(this.#formValues());
    }
    #field(name) {
        return this.#form.elements.namedItem(name);
    }
    /** The fields that are not blank. */
    #formValues() {
        const values = [...TOPIC_FIELDS, "joinType"].map((name) => [name, this.#field(name).value.trim()]);
        return Object.fromEntries(values.filter(([, value]) => value));
    }
    /** The message to send, or null after showing what is wrong. */
    #message() {
        if (this.#editsJson) {
            const written = this.#editor.message;
            if (written === null)
                this.#show("bad", "The message does not match the schema; see below.");
            return written;
        }
        const values = this.#formValues();
        if (Object.keys(values).length)
            return JSON.stringify(values);
        this.#show("bad", "Nothing is filled in: enter a topic or choose a join.");
        return null;
    }
    async #apply() {
        const message = this.#message();
        if (message === null || !(await this.#send("api/v1/control", message)) || this.#editsJson)
            return;
        this.#form.reset();
        this.#describeJoin();
    }
    async #preview() {
        const message = this.#message();
        const preview = message === null ? null : await this.#post("api/v1/preview", message);
        if (!preview)
            return;
        const rejected = preview.outcome === "rejected";
        const heading = rejected ? "Apply would be rejected:" : "Nothing is changed yet. Apply would do this:";
        this.#show(rejected ? "bad" : "", heading);
        byId("answer").append(descriptionList(describePreview(preview)));
    }
    /** Returns whether livejoin accepted it. */
    async #send(path, message) {
        const sentAt = performance.now();
        const reply = await this.#post(path, message);
        if (reply)
            this.#showReply({ ...reply, sentAt });
        return reply !== null;
    }
    /** The response, or null after showing the error. */
    async #post(path, message) {
        if (this.#sending)
            return null;
        this.#sending = true;
        this.#pending = null;
        this.#show("busy", "Waiting for livejoin …");
        const response = await post(path, message);
        this.#sending = false;
        if (response.ok)
            return response.body;
        const hint = response.status === 0 ? " After reconnecting, control_raw shows whether the message arrived." : "";
        this.#show("bad", response.error + hint);
        return null;
    }
    #showReply(reply) {
        const kind = outcomeKind(reply.outcome);
        this.#pending = kind === "busy" ? reply : null;
        this.#show(kind, describeReply(reply));
        if (reply.outcome !== "live")
            return;
        const now = Date.now();
        const took = formatDuration(performance.now() - reply.sentAt);
        const text = `Cut over at ${formatClock(now)}, ${took} after the request. Every open table shows it.`;
        byId("answer").append(element("p", { id: "cutover", title: formatTime(now) }, text));
    }
    #show(kind, text) {
        const target = byId("answer");
        target.dataset["kind"] = kind;
        target.replaceChildren(element("p", {}, text));
    }
}
