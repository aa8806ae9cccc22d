/** The published client: tables as rows in memory, kept up to date over one connection. Types: livejoin.d.ts. */

import type * as published from "../../src/livejoin/tables/static/livejoin.js";
import type { Change, ControlMessage, Outcome, Row, Status, User } from "../../src/livejoin/tables/static/livejoin.js";
import { readArrow } from "../protocol/arrow.js";
import type { Cell, Field } from "../protocol/arrow.js";
import { Connection, addressOf } from "../protocol/connection.js";
import type { PartKind } from "../protocol/frame.js";
import type { SessionFrame } from "../protocol/session.js";
import { Requests } from "./requests.js";

type Listener = { onChange: (change: Change) => void; onStatus: (status: Status) => void };

/** The rows of one table. */
class Replica {
  columns: Field[] = [];
  rows: Map<string, Row> = new Map();
  loaded = false; // a snapshot has arrived
  gone = false; // other sources are joined now
  total: number | null = null; // the server's row count, if it sends only the newest

  /** The table does not exist any more. Returns whether it had rows or columns. */
  clear(): boolean {
    const had = this.columns.length > 0;
    this.columns = [];
    this.rows = new Map();
    this.total = null;
    this.gone = true;
    return had;
  }

  /** Returns the rows of the part. */
  apply(kind: PartKind, payload: ArrayBuffer): Row[] {
    const { fields, columns, length } = readArrow(payload);
    const rows = new Array<Row>(length);
    for (let i = 0; i < length; i++) {
      const row: Record<string, Cell> = {};
      for (let c = 0; c < fields.length; c++) row[fields[c]!.name] = columns[c]![i]!;
      rows[i] = row as Row; // every table has `_id`
    }
    if (kind === "snapshot") {
      this.columns = fields;
      this.rows = new Map(rows.map((row) => [row._id, row]));
      this.loaded = true;
      this.gone = false;
    } else if (kind === "upsert") {
      for (const row of rows) this.rows.set(row._id, row);
    } else {
      for (const { _id } of rows) this.rows.delete(_id);
    }
    return rows;
  }
}

type SharedTable = { replica: Replica; listeners: Set<Listener>; users: number };

export class Client implements published.Client {
  #tables: Map<string, SharedTable> = new Map();
  #subscribing = false;
  #connection: Connection;
  #requests: Requests;

  constructor(url: string | URL, token?: string) {
    const address = addressOf(url);
    const listener = {
      frame: (frame: SessionFrame) => this.#apply(frame),
      statusChanged: () => this.#notifyStatus(),
      mismatch: () => this.#notifyStatus(),
    };
    this.#connection = new Connection(address, listener, { token });
    this.#requests = new Requests(address, token);
  }

  table(name: string): published.Table {
    if (this.#connection.state === "closed") throw new Error("this client is closed");
    const shared = this.#tables.get(name) ?? { replica: new Replica(), listeners: new Set(), users: 0 };
    shared.users += 1;
    this.#tables.set(name, shared);
    this.#subscribeSoon();
    const release = () => {
      shared.users -= 1;
      if (shared.users > 0 || this.#tables.get(name) !== shared) return;
      this.#tables.delete(name);
      this.#connection.forget(name);
      this.#subscribeSoon();
    };
    return new ClientTable(name, shared, () => this.#statusOf(name, shared.replica), release);
  }

  control(message: ControlMessage): Promise<Outcome> {
    return this.#requests.control(message);
  }

  whoami(): Promise<User | null> {
    return this.#requests.whoami();
  }

  close(): void {
    this.#connection.close();
  }

  /** Tables requested in one go share one subscription. */
  #subscribeSoon(): void {
    if (this.#subscribing) return;
    this.#subscribing = true;
    queueMicrotask(() => {
      this.#subscribing = false;
      this.#connection.subscribe([...this.#tables.keys()]);
    });
  }

  #apply(frame: SessionFrame): void {
    const { header, parts, gone, verifiable } = frame;
    const { generation, seq } = header;
    const changes: Change[] = [];
    for (const table of gone) {
      if (!this.#tables.get(table)?.replica.clear()) continue;
      changes.push({ table, kind: "cutover", rows: [], generation, seq });
    }
    for (const { table, kind, payload, cutover } of parts) {
      const replica = this.#tables.get(table)?.replica;
      if (!replica) continue; // released a moment ago
      const rows = replica.apply(kind, payload);
      if (kind === "snapshot") replica.total = header.limited?.[table]?.total ?? null;
      changes.push({ table, kind: cutover ? "cutover" : kind, rows, generation, seq });
    }
    const counts: Record<string, number> = {};
    for (const table of verifiable) {
      const replica = this.#tables.get(table)?.replica;
      if (!replica) continue;
      replica.total = header.limited?.[table]?.total ?? null;
      counts[table] = replica.rows.size;
    }
    this.#connection.applied(frame, counts);
    // all tables are up to date before the first listener is called
    for (const change of changes) this.#notify(change.table, ({ onChange }) => onChange(change));
  }

  #notifyStatus(): void {
    for (const [name, { replica }] of this.#tables) {
      const status = this.#statusOf(name, replica);
      this.#notify(name, ({ onStatus }) => onStatus(status));
    }
  }

  #notify(table: string, call: (listener: Listener) => void): void {
    for (const listener of [...(this.#tables.get(table)?.listeners ?? [])]) {
      try {
        call(listener);
      } catch (error) {
        queueMicrotask(() => {
          throw error; // reported as uncaught, without stopping the client
        });
      }
    }
  }

  #statusOf(table: string, { rows, total, gone }: Replica): Status {
    const { state, reason, serverStale, heartbeatAt, mismatches, session } = this.#connection;
    const kept = session.nothingLive && session.isData(table) ? "nothing is live; the last rows are kept" : "";
    const missing = gone ? "there is no such table now: other sources are joined" : "";
    return {
      state,
      stale: (state === "following" ? serverStale || missing || kept : reason) || null,
      generation: session.generation,
      seq: session.seq,
      rows: rows.size,
      total: total ?? rows.size,
      heartbeatAgeMs: heartbeatAt === null ? null : Math.round(performance.now() - heartbeatAt),
      mismatches,
    };
  }
}

/** One user's handle of a table. */
class ClientTable implements published.Table {
  readonly name: string;
  #shared: SharedTable;
  #status: () => Status;
  #release: () => void;
  #listeners: Set<Listener> = new Set(); // of this handle
  #closed = false;

  constructor(name: string, shared: SharedTable, status: () => Status, release: () => void) {
    this.name = name;
    this.#shared = shared;
    this.#status = status;
    this.#release = release;
  }

  get columns(): Field[] {
    return this.#shared.replica.columns;
  }

  get status(): Status {
    return this.#status();
  }

  rows(): Row[] {
    return [...this.#shared.replica.rows.values()];
  }

  row(id: string): Row | undefined {
    return this.#shared.replica.rows.get(id);
  }

  subscribe(onChange: (change: Change) => void, onStatus: (status: Status) => void = () => {}): () => void {
    if (this.#closed) throw new Error("this table is closed");
    const listener = { onChange, onStatus };
    this.#shared.listeners.add(listener);
    this.#listeners.add(listener);
    if (this.#shared.replica.loaded) {
      const { generation, seq } = this.status;
      onChange({ table: this.name, kind: "snapshot", rows: this.rows(), generation, seq });
    }
    onStatus(this.status);
    return () => {
      this.#shared.listeners.delete(listener);
      this.#listeners.delete(listener);
    };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const listener of this.#listeners) this.#shared.listeners.delete(listener);
    this.#listeners.clear();
    this.#release();
  }
}
