/** The Timeline view: control messages and generations, the newest first; one of them in detail. */

import { button, byId, facts, make } from "../ui/dom.js";
import { events, linesOf } from "./history_events.js";
import type { Event, Line, Message, Stage } from "./history_events.js";
import type { Replicas } from "../grid/grid_tables.js";
import { moment, span } from "../ui/time_format.js";
import { choice, kindOf } from "../../protocol/api_types.js";
import type { Chosen, Generation } from "../../protocol/api_types.js";

const SHOWN = 200;

export class Timeline {
  #replicas: Replicas;
  #events: Event[] = [];
  #lines: Line[] = [];
  #chosen = "";
  #drawing: Promise<void> | null = null;
  #again = false;

  constructor(replicas: Replicas) {
    this.#replicas = replicas;
    setInterval(() => this.changed(), 5000); // what goes on gets longer
  }

  /** Rows that it is made of have changed. */
  changed(): void {
    if (!byId("view-timeline").hidden) this.draw();
  }

  /** Drawn once at a time: a burst of changes is drawn once more at its end. */
  draw(): void {
    if (this.#drawing) {
      this.#again = true;
      return;
    }
    this.#drawing = this.#draw().finally(() => {
      this.#drawing = null;
      if (this.#again) this.draw();
      this.#again = false;
    });
  }

  async #draw(): Promise<void> {
    const [messages, generations, lines] = await Promise.all([
      this.#replicas.rows<Message>("control_raw"),
      this.#replicas.rows<Generation>("generations"),
      this.#replicas.rows<Line>("orchestrator_logs"),
    ]);
    this.#lines = lines;
    this.#events = events(messages, generations, lines).slice(0, SHOWN);
    const chosen = this.#events.find(({ id }) => id === this.#chosen) ?? this.#events[0];
    this.#chosen = chosen?.id ?? "";
    const list = byId("events");
    const focused = (document.activeElement as HTMLElement | null)?.dataset["event"];
    list.replaceChildren(...this.#events.map((event) => this.#item(event)));
    if (focused) list.querySelector<HTMLElement>(`[data-event="${focused}"]`)?.focus();
    if (!this.#events.length) {
      list.replaceChildren(
        make(
          "p",
          { class: "soft" },
          "Nothing has happened yet. The first build appears here as soon as livejoin starts it.",
        ),
      );
    }
    if (chosen) this.#detail(chosen);
  }

  #item(event: Event): HTMLElement {
    const { id, at, by, outcome, generation, back, message } = event;
    const item = button(
      "",
      { class: "event", "data-event": id, "data-kind": kindOf(outcome), "aria-pressed": id === this.#chosen },
      () => {
        this.#chosen = id;
        for (const other of byId("events").querySelectorAll("[aria-pressed]"))
          other.setAttribute("aria-pressed", String(other === item));
        this.#detail(event);
      },
    );
    const returned = back ? `, back to generation ${back.generation}` : "";
    const number = generation
      ? `generation ${generation.generation}`
      : message
        ? `message ${message.offset}${returned}`
        : "";
    item.append(
      make("span", { class: "when" }, moment(at)),
      make("span", { class: "outcome", "data-kind": kindOf(outcome) }, outcome),
      make("span", { class: "what" }, ...whatOf(event)),
      make("span", { class: "who soft" }, `${number}${by && `, by ${by}`}`),
      ...(kindOf(outcome) === "bad" && event.reason ? [make("span", { class: "why bad" }, event.reason)] : []),
      make("span", { class: "stages" }, ...event.stages.map(stage)),
    );
    return item;
  }

  #detail(event: Event): void {
    const { generation, message, before, reason } = event;
    const parts: (Node | string)[] = [make("h2", {}, ...whatOf(event))];
    const told: [string, string][] = [
      ["When", moment(event.at)],
      ["By", event.by],
      ["Outcome", event.outcome],
    ];
    if (reason) told.push(["Reason", reason]);
    if (before) told.push(["Live before", choice(before)]);
    parts.push(facts(told));
    if (generation) parts.push(...generationParts(generation, event.stages));
    if (message)
      parts.push(
        make("h3", {}, `Message ${message.offset}`),
        make("pre", { class: "raw", tabindex: 0 }, message.raw ?? "(empty)"),
      );
    const lines = linesOf(event, this.#lines);
    parts.push(make("h3", {}, "Log"));
    if (!lines.length) parts.push(make("p", { class: "soft" }, "No line of the log that is kept speaks of it."));
    parts.push(
      make(
        "ol",
        { class: "lines" },
        ...lines.map(({ ts, level, msg }) =>
          make("li", { "data-level": level }, make("span", { class: "soft" }, moment(ts)), ` ${msg}`),
        ),
      ),
    );
    byId("event-detail").replaceChildren(...parts);
  }
}

/** Old → new, or what was asked for where nothing came of it. */
function whatOf({ generation, back, message, before }: Event): (Node | string)[] {
  const after = generation ?? back;
  if (after) {
    const now = choice(after);
    return before && choice(before) !== now ? [make("span", { class: "soft" }, `${choice(before)} → `), now] : [now];
  }
  const asked: Partial<Chosen> = { ...message };
  const named = [asked.usersTopic, asked.joinType, asked.accountsTopic].filter(Boolean).join(" ");
  return [named || (message?.raw ?? "").slice(0, 120) || "(empty)"];
}

function stage({ name, from, to }: Stage): HTMLElement {
  return make(
    "span",
    { class: "stage", "data-stage": name },
    `${name} ${span((to ?? Date.now()) - from)}${to === null ? " …" : ""}`,
  );
}

function generationParts({ generation, state, rows, read, rejected, tombstones }: Generation, all: Stage[]): Node[] {
  const number = (count: number | null) => (count === null ? "–" : count.toLocaleString("en"));
  const rowsOf = all.map(({ name, from, to }) =>
    make(
      "tr",
      {},
      make("td", {}, name),
      make("td", {}, moment(from)),
      make("td", { class: "number" }, span((to ?? Date.now()) - from)),
      make("td", {}, to === null ? "goes on" : ""),
    ),
  );
  return [
    make("h3", {}, `Generation ${generation}, ${state}`),
    make("table", { class: "plain" }, make("tbody", {}, ...rowsOf)),
    facts([
      ["Records read", number(read)],
      ["Rows joined", number(rows)],
      ["Rejects", number(rejected)],
      ["Tombstones", number(tombstones)],
    ]),
  ];
}
