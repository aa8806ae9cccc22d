/** livejoin's tables in a web page. See docs/web-module.md. */

export type Kind = "snapshot" | "upsert" | "remove" | "cutover";
/** An int64 beyond the safe integers is a BigInt, a decimal is text; timestamps are ms since 1970 UTC. */
export type Cell = string | number | bigint | boolean | null;
export type Row = { _id: string } & Record<string, Cell>;

export interface Column {
  name: string;
  type: "string" | "int64" | "double" | "boolean" | "timestamp" | `decimal(${number},${number})`;
}

export interface Change {
  table: string;
  /** `snapshot` and `cutover` contain the whole table; the rows of `remove` have only `_id`. */
  kind: Kind;
  rows: Row[];
  generation: number | null;
  seq: number;
}

export interface Status {
  state: "connecting" | "following" | "reconnecting" | "refused" | "closed";
  /** Why the rows may be old, or null. */
  stale: string | null;
  generation: number | null;
  seq: number;
  /** Rows held here, and rows that livejoin has: of a very large table only the newest are sent. */
  rows: number;
  total: number;
  heartbeatAgeMs: number | null;
  /** Heartbeats whose row count or hash did not match; the tables are then loaded again. */
  mismatches: number;
}

export interface Table {
  readonly name: string;
  readonly columns: Column[];
  readonly status: Status;
  /** All rows. A changed row is a new object. */
  rows(): Row[];
  row(id: string): Row | undefined;
  /** Called with the current rows, then with every change; and with the status. Returns the function that unsubscribes. */
  subscribe(changed: (change: Change) => void, status?: (status: Status) => void): () => void;
  close(): void;
}

/** A request for other topics or another join; see docs/control-messages.md. What is left out stays as it is. */
export interface ControlMessage {
  /** The topic of a source, by its name. */
  [field: `${string}Topic`]: string | undefined;
  joinType?: string;
  /** For all sources, or by source. */
  start?: string | Record<string, string>;
  action?: "apply" | "preview" | "rollback";
  id?: string;
  expectedGeneration?: number;
}

export interface Outcome {
  /** `accepted`, `building`: `generation` is being built. `live`: it is shown. `written`: not decided yet. */
  outcome: string;
  reason: string | null;
  generation: number | null;
  /** Where the message is in the control topic. */
  partition: number;
  offset: number;
}

export interface User {
  id: string;
  role: "viewer" | "operator";
  label: string;
}

export interface Client {
  /** Follow a table. All tables of a client show the same generation. */
  table(name: string): Table;
  /** Send a control message, for which the role operator is required. Rejects with the reason if livejoin does. */
  control(message: ControlMessage): Promise<Outcome>;
  /** Who is signed in; null: nobody. */
  whoami(): Promise<User | null>;
  close(): void;
}

export interface Options {
  /** For a page of another site, which the setting `http.origins` must allow. Never part of an address. */
  token?: string;
}

/** `url` is livejoin's address (default: where this module was loaded from). */
export function connect(url?: string | URL, options?: Options): Client;

declare global {
  interface HTMLElementTagNameMap {
    /** Attributes: `table`, and `src`, livejoin's address (default: where this module was loaded from). */
    "live-table": HTMLElement;
  }
}
