/** The status bar: what is live, what is being done, how fresh the rows are, and the connection. */

import type { Generation, StatusRow } from "../../protocol/api_types.js";
import type { FrameHeader } from "../../protocol/frame.js";
import { Rate } from "../health/rates.js";
import { byId, setText, setTextAndTitle } from "./dom.js";
import { describeChoice, formatCount, formatRate, plural } from "./format.js";
import { formatAge, formatClock, formatTime } from "./time_format.js";

const LATE_MS = 3000; // heartbeats come every second

export class StatusBar {
  #status: StatusRow | null = null;
  #stale = "";
  #limits = "";
  #nothingLive = false; // the rows of the last generation are kept
  #shown: number | null | undefined = undefined;
  #heartbeatTime = 0; // wall clock, for display
  #heartbeatAt = 0; // performance.now(), for the age: the wall clock can be set
  #disconnected = true;
  #refused = ""; // why it does not reconnect
  #pausedTime = 0;
  #recordsIn = new Rate();
  #changesOut = new Rate();

  constructor() {
    setInterval(() => this.#showConnection(), 1000);
  }

  /** The generation whose rows are on the page. */
  get shownGeneration(): number | null | undefined {
    return this.#shown;
  }

  connected(): void {
    if (!this.#disconnected) return;
    this.#disconnected = false;
    if (!this.#heartbeatTime) this.#heard();
    this.#showConnection();
  }

  disconnected(): void {
    this.#disconnected = true;
    this.#recordsIn.clear();
    this.#changesOut.clear();
    for (const id of ["rate-in", "rate-out", "freshness", "viewers"]) setText(byId(id), "–");
    this.#showConnection();
  }

  /** The connection ended for good. */
  refused(reason: string): void {
    this.#refused = reason;
    this.disconnected();
    this.#showMessage();
  }

  /** Wall-clock time of the pause, or 0 if not paused. */
  paused(time: number): void {
    this.#pausedTime = time;
    this.#showMessage();
  }

  setStatus(row: StatusRow): void {
    const building = row.state === "building";
    const progress = byId<HTMLProgressElement>("progress");
    this.#status = row;
    byId("strip").dataset["state"] = row.state;
    setText(byId("state"), building ? `building ${row.progress} %` : row.state);
    progress.value = Number(row.progress);
    progress.hidden = !building;
    document.title = `livejoin: ${row.state}`;
    this.#showMessage();
  }

  heartbeat({ newest, at, stale, tables, limited, capped, viewers, sources, seq }: FrameHeader): void {
    this.#heard();
    setText(byId("freshness"), newest ? `${formatAge(at - newest)} ago` : "–");
    setText(byId("viewers"), viewers === undefined ? "–" : formatCount(viewers));
    const read = Object.values(sources ?? {}).reduce((sum, { read }) => sum + read, 0);
    this.#recordsIn.add(at, read);
    this.#changesOut.add(at, seq);
    setText(byId("rate-in"), formatRate(this.#recordsIn.perSecond));
    setText(byId("rate-out"), formatRate(this.#changesOut.perSecond));
    this.#stale = stale ?? "";
    const limitedTexts = Object.entries(limited ?? {}).map(
      ([table, { total }]) =>
        `${table}: the newest ${formatCount(tables?.[table]?.rows ?? 0)} of ${plural(total, "row")}`,
    );
    const cappedTexts = Object.entries(capped ?? {}).map(
      ([table, { rows, from }]) => `${table} is full: ${plural(rows, "row")}, oldest from ${formatTime(from)}`,
    );
    this.#limits = [...limitedTexts, ...cappedTexts].join("; ");
    this.#showConnection();
    this.#showMessage();
  }

  /** Show an error until the next message. */
  showError(message: string): void {
    setTextAndTitle(byId("message"), message);
  }

  /** Show the live generation, if any, and announce a change of it. */
  showGeneration(number: number | null, generations: Generation[]): void {
    this.#nothingLive = number === null && Boolean(this.#shown);
    this.#showMessage();
    if (this.#nothingLive) return;
    const row = generations.find(({ generation }) => generation === number);
    const badge = byId("generation");
    const previous = number === this.#shown ? (byId("choice").textContent ?? "") : ""; // its row may be gone by now
    const choice = row ? describeChoice(row) : previous;
    badge.hidden = number === null;
    setText(badge, number === null ? "" : `generation ${number}`);
    setTextAndTitle(byId("choice"), choice);
    if (this.#shown !== undefined && number !== this.#shown) {
      setText(byId("said"), `now showing generation ${number}${choice && `: ${choice}`}`);
      this.#recordsIn.clear();
      this.#changesOut.clear();
      highlight(badge);
    }
    this.#shown = number;
  }

  #heard(): void {
    this.#heartbeatTime = Date.now();
    this.#heartbeatAt = performance.now();
  }

  #showConnection(): void {
    const pill = byId("connection");
    const heard = this.#heartbeatTime > 0;
    const late = heard && performance.now() - this.#heartbeatAt > LATE_MS;
    const since = heard ? `stale since ${formatClock(this.#heartbeatTime)}` : "";
    const disconnected = this.#disconnected || !heard;
    pill.dataset["connected"] = String(!disconnected);
    pill.dataset["late"] = String(late);
    byId("strip").dataset["late"] = String(late || (disconnected && heard));
    if (this.#refused) setText(pill, since ? `stopped, ${since}` : "stopped");
    else if (disconnected) setText(pill, heard ? `reconnecting, ${since}` : "connecting");
    else setText(pill, late ? since : "connected");
  }

  #showMessage(): void {
    const kept = this.#nothingLive ? "nothing is live; the last rows are kept" : "";
    const stale = this.#refused || this.#stale || kept;
    const status = stale ? `stale: ${stale}` : (this.#status?.message ?? "");
    const paused = this.#pausedTime ? `paused: rows as of ${formatClock(this.#pausedTime)}` : "";
    setTextAndTitle(byId("message"), [paused, status, this.#limits].filter(Boolean).join(" · "));
    byId("message").dataset["kind"] = stale ? "bad" : paused ? "busy" : "";
  }
}

function highlight(badge: HTMLElement): void {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const lit = { background: "var(--accent)", color: "var(--on-accent)" };
  badge.animate([lit, { ...lit, offset: 0.4 }, {}], { duration: 1800, easing: "ease-out" });
}
