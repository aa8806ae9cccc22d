/**
 * Client side of `livejoin.v1` without a socket or a clock: one subscription over any number of sockets, one after the
 * other. Decides what to send, which parts of a frame to apply and whether a new socket can resume. The counterpart of
 * `client/session.py`.
 *
 *     disconnected ─hello()─▶ awaiting ─snapshots of all tables, or resumed─▶ settled
 *                               ▲                                              │
 *                               └──── tables were added, or a hash differs ◀───┘
 */

import { readArrowStream } from "./arrow.js";
import type { Frame, FrameHeader, PartKind } from "./frame.js";

/** A part to apply. `cutover`: the snapshot belongs to another generation than the rows before it. */
export type SessionPart = { table: string; kind: PartKind; payload: ArrayBuffer; cutover: boolean };
/**
 * A data, cutover or heartbeat frame, reduced to the parts to apply, the tables that do not exist any more, and those
 * that a heartbeat can verify.
 */
export type SessionFrame = { header: FrameHeader; parts: SessionPart[]; gone: string[]; verifiable: string[] };

export class Session {
  generation: number | null = null;
  seq = 0;
  nothingLive = false; // the rows of the last generation are kept
  #wanted: string[] = [];
  #sentFirst: string[] = []; // the first subscription over this socket
  #sent: string[] = []; // the last one
  #resuming = false;
  #awaiting: "first" | "again" | "" = "first";
  #complete: string | null = null; // the set of tables that are all at our position
  #wait: boolean;
  #gone = new Set<string>(); // subscribed tables that do not exist now
  #isData: Map<string, boolean> = new Map(); // by table: whether it belongs to a generation; known since its snapshot

  /** `wait`: also subscribe to tables that are yet to come; otherwise livejoin refuses unknown ones. */
  constructor(wait = false) {
    this.#wait = wait;
  }

  get wanted(): readonly string[] {
    return this.#wanted;
  }

  /** Nothing has arrived over this socket yet: large snapshots take time. */
  get awaitingFirst(): boolean {
    return this.#awaiting === "first";
  }

  /** All subscribed tables have arrived. */
  get settled(): boolean {
    return this.#awaiting === "";
  }

  /** Subscribe to these tables from now on. Returns whether that takes a new message. */
  want(tables: string[]): boolean {
    this.#wanted = tables;
    const missing = tables.filter((table) => !this.#isData.has(table) && !this.#gone.has(table));
    const forgotten = this.settled && missing.length > 0; // and wanted again
    return forgotten || keyOf(tables) !== keyOf(this.#sent);
  }

  /** The rows of a table were discarded. */
  forget(table: string): void {
    this.#isData.delete(table);
  }

  isData(table: string): boolean {
    return this.#isData.get(table) === true;
  }

  /** The first message over a new socket. */
  hello(): string {
    this.#awaiting = "first";
    this.#sentFirst = this.#sent = this.#wanted;
    // a position is valid only for the tables it was reached with
    this.#resuming = this.generation !== null && this.#complete === keyOf(this.#sent);
    const resume = this.#resuming ? { resume: { generation: this.generation, seq: this.seq } } : {};
    return JSON.stringify({ subscribe: this.#sent, ...this.#options, ...resume });
  }

  /** A message that asks for new snapshots over the same socket. */
  resubscribe(): string {
    if (this.#awaiting !== "first") this.#awaiting = "again";
    this.#complete = null;
    this.#sent = this.#wanted;
    return JSON.stringify({ subscribe: this.#sent, ...this.#options });
  }

  get #options(): { wait?: true } {
    return this.#wait || this.#gone.size ? { wait: true } : {};
  }

  /** The tables may be damaged: do not resume from them. */
  invalidate(): void {
    this.#complete = null;
  }

  /** Null for a frame type of a later version. Throws if the frame breaks the protocol. */
  receive(frame: Frame): SessionFrame | null {
    const { type } = frame.header;
    if (type === "heartbeat") return this.#heartbeat(frame.header);
    return type === "data" || type === "cutover" ? this.#apply(frame) : null;
  }

  #apply({ header, payloads }: Frame): SessionFrame {
    const snapshots = new Set(header.parts.filter(({ kind }) => kind === "snapshot").map(({ table }) => table));
    const gone = new Set(header.gone);
    const includes = (tables: string[]) => tables.every((table) => snapshots.has(table) || gone.has(table));
    const first = this.#awaiting === "first";
    const resumed = first && this.#resuming && (header.resumed === true || this.#resumedWithoutLive(header, snapshots));
    if (first && !resumed && !includes(this.#sentFirst)) throw new Error("the first frame lacks a table");
    const answered = includes(this.#sent) || (resumed && keyOf(this.#sent) === keyOf(this.#sentFirst));
    this.nothingLive = header.generation === null && this.generation !== null;
    const parts = this.#partsToApply(header, payloads);
    if (first) this.#awaiting = "again"; // tables may have been added since
    if (answered) {
      this.#awaiting = "";
      if (header.generation !== null) this.#complete = keyOf(this.#sent);
      else if (this.#complete !== keyOf(this.#sent)) this.#complete = null;
    }
    this.#move(header);
    if (first || answered || header.type === "cutover") this.#gone = gone;
    // a server that has just started does not know the tables yet: keep ours
    return { header, parts, gone: header.generation === null ? [] : [...gone], verifiable: [] };
  }

  /** While nothing is live the server resumes by leaving the data tables out. */
  #resumedWithoutLive({ generation }: FrameHeader, snapshots: Set<string>): boolean {
    return (
      generation === null &&
      this.#sentFirst.every((table) => snapshots.has(table) || (this.#isData.get(table) ?? true))
    );
  }

  #partsToApply(header: FrameHeader, payloads: ArrayBuffer[]): SessionPart[] {
    const moved = header.type === "cutover" || (this.generation !== null && header.generation !== this.generation);
    const parts: SessionPart[] = [];
    for (const [i, { table, kind }] of header.parts.entries()) {
      const payload = payloads[i]!;
      if (!this.#wanted.includes(table)) continue; // unsubscribed in the meantime
      if (this.nothingLive && this.isData(table)) continue; // a restarted server has no rows yet: keep ours
      if (kind === "snapshot") this.#isData.set(table, hasTimestamps(payload));
      else if (!this.#isData.has(table)) throw new Error(`${table} changed before its snapshot`);
      parts.push({ table, kind, payload, cutover: moved && kind === "snapshot" && this.isData(table) });
    }
    return parts;
  }

  #heartbeat(header: FrameHeader): SessionFrame {
    if (!this.settled) return { header, parts: [], gone: [], verifiable: [] };
    this.#move(header);
    const verifiable = this.#wanted.filter(
      (table) =>
        header.tables?.[table] && this.#isData.has(table) && !(this.isData(table) && header.generation === null),
    );
    return { header, parts: [], gone: [], verifiable };
  }

  #move({ generation, seq }: FrameHeader): void {
    if (generation === null) return;
    this.generation = generation;
    this.seq = seq;
  }
}

/** Whether the table belongs to a generation: rows of livejoin's own tables have no Kafka timestamp. */
function hasTimestamps(payload: ArrayBuffer): boolean {
  return readArrowStream(payload).fields.some(({ name }) => name === "_ts");
}

const keyOf = (tables: string[]) => [...tables].sort().join();
