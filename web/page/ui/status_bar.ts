/** The status strip: what is shown, what is going on, how fresh it is. Quiet, unless something moves. */

import { byId, put, putWhole } from "./dom.js";
import { Rate } from "../health/statistics.js";
import type { Header } from "../../protocol/frame.js";
import { age, clock, moment } from "./time_format.js";
import { cappedAt, choice, newestOf, perSecond } from "../../protocol/api_types.js";
import type { Generation, Status } from "../../protocol/api_types.js";

const LATE_MS = 3000; // heartbeats come every second

export class Strip {
  #status: Status | null = null;
  #stale = "";
  #limited = "";
  #gone = false;
  #shown: number | null | undefined = undefined;
  #beatAt = 0; // as it is shown
  #beat = 0; // the same by performance.now(), for how long ago it was: the wall clock can be set
  #againAt: number | null = null; // when the next try is to connect
  #refused = ""; // why there is no next try
  #paused = 0;
  #in = new Rate();
  #out = new Rate();

  constructor() {
    setInterval(() => this.#connection(), 1000);
  }

  /** The generation whose rows are on the page. */
  get shown(): number | null | undefined {
    return this.#shown;
  }

  connected(): void {
    if (this.#againAt === null && this.#beatAt) return;
    this.#againAt = null;
    if (!this.#beatAt) this.#heard();
    this.#connection();
  }

  lost(againAt: number): void {
    this.#againAt = againAt;
    this.#in.clear();
    this.#out.clear();
    for (const id of ["rate-in", "rate-out", "freshness", "viewers"]) put(byId(id), "–");
    this.#connection();
  }

  /** Nothing comes any more. */
  refused(why: string): void {
    this.#refused = why;
    this.lost(Infinity);
    this.#message();
  }

  /** When the rows were held, or 0 for rows that move. */
  paused(at: number): void {
    this.#paused = at;
    this.#message();
  }

  status(row: Status): void {
    const building = row.state === "building";
    const progress = byId<HTMLProgressElement>("progress");
    this.#status = row;
    byId("strip").dataset["state"] = row.state;
    put(byId("state"), building ? `building ${row.progress} %` : row.state);
    progress.value = Number(row.progress);
    progress.hidden = !building;
    document.title = `livejoin: ${row.state}`;
    this.#message();
  }

  heartbeat({ newest, at, stale, tables, limited, capped, viewers, sources, seq }: Header): void {
    this.#heard();
    put(byId("freshness"), newest ? `${age(at - newest)} ago` : "–");
    put(byId("viewers"), viewers === undefined ? "–" : viewers.toLocaleString("en"));
    const read = Object.values(sources ?? {}).reduce((sum, { read }) => sum + read, 0);
    this.#in.add(at, read);
    this.#out.add(at, seq);
    put(byId("rate-in"), perSecond(this.#in.perSecond));
    put(byId("rate-out"), perSecond(this.#out.perSecond));
    this.#stale = stale ?? "";
    const some = Object.entries(limited ?? {}).map(([table, { total }]) =>
      newestOf(table, tables?.[table]?.rows ?? 0, total),
    );
    const full = Object.entries(capped ?? {}).map(([table, { rows, from }]) => cappedAt(table, rows, moment(from)));
    this.#limited = [...some, ...full].join("; ");
    this.#connection();
    this.#message();
  }

  /** Why the socket was closed. */
  error(message: string): void {
    putWhole(byId("message"), message);
  }

  #heard(): void {
    this.#beatAt = Date.now();
    this.#beat = performance.now();
  }

  #connection(): void {
    const pill = byId("connection");
    const late = this.#beatAt > 0 && performance.now() - this.#beat > LATE_MS;
    const since = this.#beatAt ? `stale since ${clock(this.#beatAt)}` : "";
    const lost = this.#againAt !== null || !this.#beatAt;
    pill.dataset["connected"] = String(!lost);
    pill.dataset["late"] = String(late);
    byId("strip").dataset["late"] = String(late || (lost && this.#beatAt > 0));
    if (this.#refused) put(pill, since ? `stopped, ${since}` : "stopped");
    else if (lost) put(pill, this.#beatAt ? `reconnecting, ${since}` : "connecting");
    else put(pill, late ? since : "connected");
  }

  #message(): void {
    const why = this.#refused || this.#stale || (this.#gone ? "the last rows are shown until something is live again" : "");
    const said = why ? `stale: ${why}` : (this.#status?.message ?? "");
    const held = this.#paused ? `paused: rows as of ${clock(this.#paused)}` : "";
    putWhole(byId("message"), [held, said, this.#limited].filter(Boolean).join(" · "));
    byId("message").dataset["kind"] = why ? "bad" : held ? "busy" : "";
  }

  /** Which generation livejoin shows, or none. It is said when it is another one than before. */
  shows(number: number | null, generations: Generation[]): void {
    this.#gone = number === null && Boolean(this.#shown);
    this.#message();
    if (this.#gone) return;
    const row = generations.find(({ generation }) => generation === number);
    const badge = byId("generation");
    const known = number === this.#shown ? (byId("choice").textContent ?? "") : ""; // it may have been retired since
    const what = row ? choice(row) : known;
    badge.hidden = number === null;
    put(badge, number === null ? "" : `generation ${number}`);
    putWhole(byId("choice"), what);
    if (this.#shown !== undefined && number !== this.#shown) {
      put(byId("said"), `now showing generation ${number}${what && `: ${what}`}`);
      this.#in.clear();
      this.#out.clear();
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
        const lit = { background: "var(--main)", color: "var(--on-main)" };
        badge.animate([lit, { ...lit, offset: 0.4 }, {}], { duration: 1800, easing: "ease-out" });
      }
    }
    this.#shown = number;
  }
}
