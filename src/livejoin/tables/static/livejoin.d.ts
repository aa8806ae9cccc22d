/** A livejoin's tables in a web page. See docs/web-module.md. */

export type Kind = "snapshot" | "upsert" | "remove" | "cutover";
/** Whole numbers are numbers where those are exact, else BigInts; timestamps are ms since 1970 UTC. */
export type Cell = string | number | bigint | null;
export type Row = { _id: string } & Record<string, Cell>;

export interface Column {
  name: string;
  type: "string" | "int64" | "double" | "timestamp";
}

export interface Change {
  table: string;
  /** `snapshot` and `cutover` bring the whole table; rows of `remove` have an `_id` alone. */
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
  /** How many rows are here, and how many livejoin has: of a very large table only the newest come. */
  rows: number;
  total: number;
  heartbeatAgeMs: number | null;
  /** How often a heartbeat's row count or hash was not that of the rows here; they were then taken afresh. */
  mismatches: number;
}

export interface Table {
  readonly name: string;
  readonly columns: Column[];
  readonly status: Status;
  /** All rows. One that changes is a new object in the place of the old one. */
  rows(): Row[];
  row(id: string): Row | undefined;
  /** Be told of the rows that are here, then of every change; and of the status. Returns how to end it. */
  subscribe(changed: (change: Change) => void, status?: (status: Status) => void): () => void;
  close(): void;
}

export interface Client {
  /** Keep a table up to date. All tables of a client show one generation. */
  table(name: string): Table;
  close(): void;
}

export interface Options {
  /** For a page of another site, which livejoin's setting `http.origins` must name. It goes into no address. */
  token?: string;
}

export function connect(url?: string | URL, options?: Options): Client;

declare global {
  interface HTMLElementTagNameMap {
    /** Attributes: `src`, livejoin's address (this page's, if there is none), and `table`. */
    "live-table": HTMLElement;
  }
}
