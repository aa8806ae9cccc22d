/** The Timeline view: control messages and generations, newest first, with details of the selected one. */
import { button, byId, descriptionList, element } from "../ui/dom.js";
import { positionText, describeChoice, formatCount } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { formatDuration, formatTime } from "../ui/time_format.js";
import { historyEvents, logLinesOf } from "./history_events.js";
const MAX_EVENTS = 200;
const REDRAW_MS = 5000; // durations of current stages grow
const CURRENT = { build: "building", live: "live", standby: "standby" };
const PAST = { build: "build", live: "was live", standby: "standby" };
export class Timeline {
    #tables;
    #events = [];
    #lines = [];
    #selected = "";
    #drawing = null;
    #redraw = false;
    #staleSince = 0; // wall clock; 0 while the events are current
    constructor(tables) {
        this.#tables = tables;
        setInterval(() => this.refresh(), REDRAW_MS);
    }
    /** Wall-clock time of the last heartbeat, or 0 while they come: durations of current stages end there. */
    setStale(since) {
        this.#staleSince = since;
        this.refresh();
    }
    /** The rows of the events have changed. */
    refresh() {
        if (!byId("view-timeline").hidden)
            this.draw();
    }
    /** Never runs twice at once: a burst of changes is followed by one more run. */
    draw() {
        if (this.#drawing) {
            this.#redraw = true;
            return;
        }
        this.#drawing = this.#draw().finally(() => {
            this.#drawing = null;
            if (this.#redraw)
                this.draw();
            this.#redraw = false;
        });
    }
    async #draw() {
        const [messages, generations, lines] = await Promise.all([
            this.#tables.rows("control_raw"),
            this.#tables.rows("generations"),
            this.#tables.rows("orchestrator_logs"),
        ]);
        this.#lines = lines;
        this.#events = historyEvents(messages, generations, lines).slice(0, MAX_EVENTS);
        const selected = this.#events.find(({ id }) => id === this.#selected) ?? this.#events[0];
        this.#selected = selected?.id ?? "";
        const list = byId("events");
        const focused = document.activeElement?.dataset["event"];
        list.replaceChildren(...this.#events.map((event) => this.#item(event)));
        if (focused)
            list.querySelector(`[data-event="${focused}"]`)?.focus();
        if (!this.#events.length) {
            list.replaceChildren(element("p", { class: "muted" }, "No events yet. The first build appears here."));
        }
        if (selected)
            this.#showDetail(selected);
    }
    #item(event) {
        const { id, at, by, status, reason, warnings } = event;
        const attributes = {
            class: "event",
            "data-event": id,
            "data-kind": status.kind,
            "aria-pressed": id === this.#selected,
        };
        const item = button("", attributes, () => {
            this.#selected = id;
            for (const other of byId("events").querySelectorAll("[aria-pressed]")) {
                other.setAttribute("aria-pressed", String(other === item));
            }
            this.#showDetail(event);
        });
        item.append(statusLabel(status), element("span", { class: "what" }, ...changeOf(event)), element("span", { class: "when" }, formatTime(at)), element("span", { class: "who muted" }, `${subjectOf(event)}${by && `, by ${by}`}`), ...(reason && reason !== status.label ? [reasonNote(event)] : []), ...warnings.map(warningNote), ...this.#stages(event));
        return item;
    }
    #stages({ stages }) {
        if (!stages.length)
            return [];
        return [element("span", { class: "stages" }, ...stages.map((stage) => stageLabel(stage, this.#now)))];
    }
    get #now() {
        return this.#staleSince || Date.now();
    }
    #showDetail(event) {
        const { generation, message, previous, reason, warnings } = event;
        const facts = [
            ["When", formatTime(event.at)],
            ["By", event.by],
            ["Now", statusLabel(event.status)],
        ];
        if (reason)
            facts.push(["Reason", reason]);
        if (warnings.length)
            facts.push(["Warnings", element("span", {}, ...warnings.map(warningNote))]);
        if (previous)
            facts.push(["Live before", describeChoice(previous)]);
        const parts = [element("h2", {}, ...changeOf(event)), descriptionList(facts)];
        if (generation)
            parts.push(...generationDetail(generation, event.stages, this.#now));
        if (message) {
            const raw = element("pre", { class: "raw", tabindex: 0 }, message.raw ?? "(empty)");
            parts.push(element("h3", {}, `Message ${positionText(message)}`), raw);
        }
        const lines = logLinesOf(event, this.#lines);
        parts.push(element("h3", {}, "Log"));
        if (!lines.length)
            parts.push(element("p", { class: "muted" }, "The log has no lines about it, or not any more."));
        parts.push(element("ol", { class: "log-lines" }, ...lines.map(logLine)));
        byId("event-detail").replaceChildren(...parts);
    }
}
/** `generation 2`, or the message that led to none. */
function subjectOf({ generation, rolledBackTo, message }) {
    if (generation)
        return `generation ${generation.generation}`;
    const rollback = rolledBackTo ? `, back to generation ${rolledBackTo.generation}` : "";
    return message ? `message ${positionText(message)}${rollback}` : "";
}
/** Old → new, or the request if it changed nothing. */
function changeOf({ generation, rolledBackTo, message, previous }) {
    const next = generation ?? rolledBackTo;
    if (next) {
        const [before, after] = [previous ? describeChoice(previous) : "", describeChoice(next)];
        return before && before !== after ? [element("span", { class: "muted" }, `${before} → `), after] : [after];
    }
    return [(message && describeChoice(message)) || (message?.raw ?? "").slice(0, 120) || "(empty)"];
}
/** The word in its colour, and an icon for those who do not see the colour. */
function statusLabel({ kind, label }) {
    return element("span", { class: "outcome", "data-kind": kind }, icon(kind), label);
}
function reasonNote({ status, reason }) {
    return element("span", { class: status.kind === "failed" ? "why bad" : "why muted" }, reason);
}
function warningNote(text) {
    return element("span", { class: "warning" }, icon("warning"), text);
}
/** `now` ends the stages that still last. */
const durationOf = ({ from, to }, now) => formatDuration(Math.max(0, (to ?? now) - from));
function stageLabel(stage, now) {
    const current = stage.to === null;
    const name = current ? CURRENT[stage.name] : PAST[stage.name];
    const text = `${name} ${durationOf(stage, now)}${current ? " …" : ""}`;
    return element("span", { class: "stage", "data-stage": stage.name, "data-current": String(current) }, text);
}
function logLine({ ts, level, msg }) {
    return element("li", { "data-level": level }, element("span", { class: "muted" }, formatTime(ts)), ` ${msg}`);
}
function generationDetail(row, stages, now) {
    const count = (value) => (value === null ? "–" : formatCount(value));
    const stageRows = stages.map((stage) => element("tr", {}, element("td", {}, stage.to === null ? CURRENT[stage.name] : PAST[stage.name]), element("td", {}, formatTime(stage.from)), element("td", { class: "number" }, durationOf(stage, now)), element("td", {}, stage.to === null ? "current" : "")));
    return [
        element("h3", {}, `Generation ${row.generation}, ${row.state}`),
        element("table", { class: "plain" }, element("tbody", {}, ...stageRows)),
        descriptionList([
            ["Records read", count(row.read)],
            ["Rows joined", count(row.rows)],
            ["Rejects", count(row.rejected)],
            ["Tombstones", count(row.tombstones)],
        ]),
    ];
}
