/**
 * Tables kept up to date in a page: one socket for all of them, opened again by itself, going on where it was.
 * Knows nothing of how they are shown. Types for those who use it: livejoin.d.ts.
 */

import { readArrow } from "../protocol/arrow.js";
import type { Cell, Field } from "../protocol/arrow.js";
import { UnsupportedFormat, readFrame } from "../protocol/frame.js";
import type { FrameHeader, PartKind } from "../protocol/frame.js";
import { Verifier } from "../protocol/verification.js";
import type { TableDigests } from "../protocol/verification.js";
import type { Change, Row, Status } from "../../src/livejoin/tables/static/livejoin.js";

type Listener = { changed: (change: Change) => void; status: (status: Status) => void };

const SUBPROTOCOL = "livejoin.v1";
const SILENCE_MS = 5000; // heartbeats come every second
const FIRST_MS = 30_000; // a snapshot of a large table over a slow line
const SHORTEST_MS = 250;
const LONGEST_MS = 5000;

/** One table as it is held here. */
class Replica {
  columns: Field[] = [];
  rows: Map<string, Row> = new Map();
  total: number | null = null;
  come = false;

  /** Whether it belongs to a generation: livejoin's own tables have no time of their input. */
  get data() {
    return this.columns.some(({ name }) => name === "_ts");
  }

  apply(kind: PartKind, payload: ArrayBuffer): Row[] {
    const { fields, columns, length } = readArrow(payload);
    const rows = new Array<Row>(length);
    for (let i = 0; i < length; i++) {
      const row: Record<string, Cell> = {};
      for (let c = 0; c < fields.length; c++) row[fields[c]!.name] = columns[c]![i]!; // as long as each other
      rows[i] = row as Row; // each has its identity
    }
    if (kind === "snapshot") {
      this.columns = fields;
      this.rows = new Map(rows.map((row) => [row._id, row]));
      this.come = true;
    } else if (!this.come) {
      throw new Error("a table changed before it came");
    } else if (kind === "upsert") {
      for (const row of rows) this.rows.set(row._id, row);
    } else {
      for (const { _id } of rows) this.rows.delete(_id);
    }
    return rows;
  }
}

/** A livejoin, and the tables of it that somebody wants. */
export class Client {
  #url;
  #ticketUrl;
  #token;
  #asking = false; // for a ticket
  #tables: Map<string, { replica: Replica; listeners: Set<Listener>; users: number }> = new Map();
  #socket: WebSocket | null = null;
  #opened: string[] = []; // tables asked for first over this socket
  #asked: string[] = []; // and last
  #resuming = false;
  #awaiting: "" | "first" | "again" = "first";
  #complete: string | null = null; // the tables that all stand at our position
  #generation: number | null = null;
  #seq = 0;
  #vacant = false; // rows are kept although nothing is live
  #stale = "";
  #why = "not connected yet";
  #state: Status["state"] = "connecting";
  #wait = SHORTEST_MS;
  #beatAt: number | null = null; // by performance.now(): the wall clock can be set
  #verifier = new Verifier((resubscribe) => this.#differed(resubscribe));
  #closed = false;
  #due = false;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(url: string | URL, token?: string) {
    const base = new URL(url, globalThis.document?.baseURI);
    if (!base.pathname.endsWith("/")) base.pathname += "/"; // a folder, wherever a proxy has put it
    const live = new URL("api/v1/live", base);
    live.protocol = live.protocol.replace("http", "ws");
    this.#url = live.href;
    this.#ticketUrl = new URL("api/v1/ticket", base).href;
    this.#token = token;
  }

  table(name: string): Table {
    if (this.#closed) throw new Error("this client is closed");
    const known = this.#tables.get(name) ?? { replica: new Replica(), listeners: new Set(), users: 0 };
    known.users += 1;
    this.#tables.set(name, known);
    this.#soon();
    const release = () => {
      known.users -= 1;
      if (known.users === 0 && this.#tables.get(name) === known) {
        this.#tables.delete(name);
        this.#verifier.forget(name);
        this.#soon();
      }
    };
    return new Table(name, known.replica, known.listeners, () => this.#statusOf(known.replica), release);
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#hangUp();
    this.#tell("closed");
  }

  /** Several tables are often asked for in one go: they share one subscription. */
  #soon() {
    if (this.#due || this.#closed) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      if (this.#closed) return;
      if (this.#tables.size === 0) {
        this.#hangUp();
      } else if (this.#socket === null && this.#retry === undefined && !this.#asking) {
        this.#open();
      } else if (this.#socket?.readyState === 1 && key(this.#tables.keys()) !== key(this.#asked)) {
        this.#again();
      }
    });
  }

  #open() {
    this.#retry = undefined;
    if (this.#state === "refused") this.#state = "connecting"; // other tables are wanted now
    if (this.#token) void this.#openWithTicket(this.#token);
    else this.#connect(this.#url);
  }

  /** A token must not stand in an address, and a page can give its socket nothing else. */
  async #openWithTicket(token: string) {
    this.#asking = true;
    let why;
    try {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch(this.#ticketUrl, { method: "POST", headers, body: "{}" });
      const { ticket, detail } = (await answer.json()) as { ticket: string; detail?: string };
      this.#asking = false;
      if (this.#closed || this.#tables.size === 0) return;
      if (answer.ok) return this.#connect(`${this.#url}?ticket=${encodeURIComponent(ticket)}`);
      why = String(detail);
      if (answer.status === 401 || answer.status === 403) {
        return this.#refuse(why);
      }
    } catch (error) {
      why = `not connected: ${error}`;
    }
    this.#asking = false;
    if (!this.#closed && this.#tables.size > 0) this.#later(why);
  }

  #connect(url: string) {
    const socket = new WebSocket(url, SUBPROTOCOL);
    this.#socket = socket;
    this.#awaiting = "first";
    socket.binaryType = "arraybuffer";
    this.#listen(socket);
    socket.onopen = () => this.#hello(socket);
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      try {
        this.#receive(readFrame(data));
        if (socket === this.#socket) this.#listen(socket);
      } catch (error) {
        if (error instanceof UnsupportedFormat) return this.#refuse(error.message);
        this.#complete = null; // half a frame may have been applied
        this.#lost(socket, `what came cannot be read: ${error}`);
      }
    };
    socket.onclose = () => this.#lost(socket, "not connected");
  }

  /** A socket is given up if it stays silent. */
  #listen(socket: WebSocket) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(
      () => this.#lost(socket, "livejoin is silent"),
      this.#awaiting === "first" ? FIRST_MS : SILENCE_MS,
    );
  }

  #hello(socket: WebSocket) {
    this.#opened = this.#asked = [...this.#tables.keys()];
    // with other tables than before there is nothing to go on from
    this.#resuming = this.#generation !== null && this.#complete === key(this.#asked);
    const resume = this.#resuming ? { resume: { generation: this.#generation, seq: this.#seq } } : {};
    socket.send(JSON.stringify({ subscribe: this.#asked, ...resume }));
  }

  /** Ask for fresh snapshots over the same socket. */
  #again() {
    if (this.#awaiting !== "first") this.#awaiting = "again";
    this.#complete = null;
    this.#asked = [...this.#tables.keys()];
    this.#socket?.send(JSON.stringify({ subscribe: this.#asked }));
  }

  #lost(socket: WebSocket, why: string) {
    if (socket !== this.#socket) return;
    this.#hangUp();
    if (this.#state === "refused") return; // trying again is of no use
    this.#later(why);
  }

  /** Trying again is of no use. */
  #refuse(why: string) {
    this.#hangUp();
    this.#why = why;
    this.#tell("refused");
  }

  #later(why: string) {
    this.#why = why;
    this.#retry = setTimeout(() => this.#open(), this.#wait * (0.5 + Math.random())); // not all at once
    this.#wait = Math.min(this.#wait * 2, LONGEST_MS);
    this.#tell("reconnecting");
  }

  #hangUp() {
    const socket = this.#socket;
    this.#socket = null;
    clearTimeout(this.#silence);
    clearTimeout(this.#retry);
    this.#retry = undefined;
    socket?.close();
  }

  #receive({ header, payloads }: { header: FrameHeader; payloads: ArrayBuffer[] }) {
    if (header.type === "error") {
      this.#why = header.message ?? "";
      this.#tell("refused");
    } else if (header.type === "heartbeat") {
      this.#beat(header);
    } else if (header.type === "data" || header.type === "cutover") {
      this.#apply(header, payloads);
    }
  }

  #apply(header: FrameHeader, payloads: ArrayBuffer[]) {
    const whole = new Set(header.parts.filter(({ kind }) => kind === "snapshot").map(({ table }) => table));
    const first = this.#awaiting === "first";
    const brings = (tables: string[]) => tables.every((table) => whole.has(table));
    const resumed = first && this.#resuming && (header.resumed || (header.generation === null && this.#spares(whole)));
    if (first && !resumed && !brings(this.#opened)) throw new Error("the first frame lacks a table");
    const answered = brings(this.#asked) || (resumed && key(this.#asked) === key(this.#opened));
    this.#vacant = header.generation === null && this.#generation !== null;
    const changes: Change[] = [];
    for (const [i, { table, kind }] of header.parts.entries()) {
      const replica = this.#tables.get(table)?.replica;
      if (!replica) continue; // nobody wants it any more
      if (this.#vacant && replica.come && replica.data) continue; // a server that has just started shows nothing yet
      const rows = replica.apply(kind, payloads[i]!);
      this.#verifier.applied(table, kind, payloads[i]!);
      if (kind === "snapshot") replica.total = header.limited?.[table]?.total ?? null;
      const moved = header.type === "cutover" || (this.#generation !== null && header.generation !== this.#generation);
      const cutover = kind === "snapshot" && replica.data && moved;
      const { generation, seq } = header;
      changes.push({ table, kind: cutover ? "cutover" : kind, rows, generation, seq });
    }
    if (first) this.#awaiting = "again"; // a table may have been added since
    if (answered) {
      const asked = key(this.#asked);
      this.#awaiting = "";
      if (header.generation !== null) this.#complete = asked;
      else if (this.#complete !== asked) this.#complete = null;
    }
    this.#move(header);
    // all tables have moved before anybody is told of one
    for (const change of changes) this.#each(change.table, ({ changed }) => changed(change));
    this.#tell("following");
  }

  /** Whether all else is data that is here: while nothing is live it stays. */
  #spares(whole: Set<string>): boolean {
    return this.#opened.every((table) => whole.has(table) || (this.#tables.get(table)?.replica.data ?? true));
  }

  #beat(header: FrameHeader) {
    this.#beatAt = performance.now();
    this.#stale = header.stale ?? "";
    this.#wait = SHORTEST_MS;
    if (this.#awaiting) return;
    this.#move(header);
    const told: TableDigests = {};
    const rows: Record<string, number> = {};
    for (const [name, { replica }] of this.#tables) {
      const one = header.tables?.[name];
      if (!one || (replica.data && header.generation === null)) continue;
      replica.total = header.limited?.[name]?.total ?? null;
      told[name] = one;
      rows[name] = replica.rows.size;
    }
    this.#verifier.heartbeat(told, rows);
    this.#tell("following");
  }

  /** What is here is not what the server has. */
  #differed(afresh: boolean) {
    if (afresh && this.#socket?.readyState === 1 && !this.#awaiting) this.#again();
    else if (afresh) this.#complete = null; // there is nothing to go on from
    if (this.#state === "following") this.#tell("following");
  }

  #move({ generation, seq }: FrameHeader) {
    if (generation === null) return;
    this.#generation = generation;
    this.#seq = seq;
  }

  #tell(state: Status["state"]) {
    this.#state = state;
    for (const [name, { replica }] of this.#tables) {
      const status = this.#statusOf(replica);
      this.#each(name, (listener) => listener.status(status));
    }
  }

  #each(table: string, say: (listener: Listener) => void) {
    for (const listener of [...(this.#tables.get(table)?.listeners ?? [])]) {
      try {
        say(listener);
      } catch (error) {
        queueMicrotask(() => {
          throw error; // it is theirs: it must not end ours, nor go unseen
        });
      }
    }
  }

  #statusOf(replica: Replica): Status {
    const kept = this.#vacant && replica.data ? "nothing is live; the last rows are kept" : "";
    return {
      state: this.#state,
      stale: (this.#state === "following" ? this.#stale || kept : this.#why) || null,
      generation: this.#generation,
      seq: this.#seq,
      rows: replica.rows.size,
      total: replica.total ?? replica.rows.size,
      heartbeatAgeMs: this.#beatAt === null ? null : Math.round(performance.now() - this.#beatAt),
      mismatches: this.#verifier.mismatches,
    };
  }
}

/** One table, for one who wants it. */
export class Table {
  readonly name: string;
  #replica;
  #listeners;
  #status;
  #release;
  #own: Set<Listener> = new Set();
  #closed = false;

  constructor(name: string, replica: Replica, listeners: Set<Listener>, status: () => Status, release: () => void) {
    this.name = name;
    this.#replica = replica;
    this.#listeners = listeners;
    this.#status = status;
    this.#release = release;
  }

  get columns() {
    return this.#replica.columns;
  }

  get status() {
    return this.#status();
  }

  rows() {
    return [...this.#replica.rows.values()];
  }

  row(id: string) {
    return this.#replica.rows.get(id);
  }

  subscribe(changed: (change: Change) => void, status: (status: Status) => void = () => {}) {
    if (this.#closed) throw new Error("this table is closed");
    const listener = { changed, status };
    this.#listeners.add(listener);
    this.#own.add(listener);
    if (this.#replica.come) {
      const { generation, seq } = this.status;
      changed({ table: this.name, kind: "snapshot", rows: this.rows(), generation, seq });
    }
    status(this.status);
    return () => {
      this.#listeners.delete(listener);
      this.#own.delete(listener);
    };
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const listener of this.#own) this.#listeners.delete(listener);
    this.#own.clear();
    this.#release();
  }
}

const key = (tables: Iterable<string>) => [...tables].sort().join();
