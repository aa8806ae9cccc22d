/** Frames of the live protocol, and a subscription that reconnects by itself. See docs/live-protocol.md. */

export type PartKind = "snapshot" | "upsert" | "remove";
export type PartHeader = { table: string; kind: PartKind; bytes: number };
/** Record counts of a source; `lag` is the number of unread records, `behind` the age of the oldest in seconds. */
export type SourceCounts = {
  read: number;
  rows: number;
  rejected: number;
  tombstones: number;
  lag: number | null;
  behind: number | null;
};
export type FrameHeader = {
  format?: number; // absent means 1
  type: "data" | "cutover" | "heartbeat" | "error";
  generation: number | null;
  seq: number;
  at: number;
  parts: PartHeader[];
  newest?: number | null;
  stale?: string | null;
  message?: string;
  tables?: Record<string, { rows: number; hash: string }>;
  limited?: Record<string, { total: number }>;
  /** Tables that are at their row limit, with the oldest `_ts` in them. */
  capped?: Record<string, { rows: number; from: number }>;
  resumed?: boolean;
  viewers?: number;
  sources?: Record<string, SourceCounts>;
};
export type Frame = { header: FrameHeader; payloads: ArrayBuffer[] };
export type Listener = {
  frame: (frame: Frame) => void;
  connected: () => void;
  /** Why there is no connection, and when the next try is. */
  lost: (why: string, againAt: number) => void;
  /** Why there will be none any more. */
  refused: (why: string) => void;
};

const SUBPROTOCOL = "livejoin.v1";
const FORMAT = 1; // the newest frame format that this client knows
const SILENCE_MS = 5000; // heartbeats come every second
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;

/** The frame's format is newer than this client: nothing else in it can be relied on. */
export class UnsupportedFormat extends Error {}

export function readFrame(data: ArrayBuffer): Frame {
  const size = new DataView(data).getUint32(0);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size))) as FrameHeader;
  const format: unknown = header.format ?? 1;
  if (!Number.isInteger(format) || Number(format) < 1 || Number(format) > FORMAT) {
    throw new UnsupportedFormat(
      `a frame has format ${format}, this page knows up to ${FORMAT}: the server is newer, reload the page`,
    );
  }
  let at = 4 + size;
  const payloads = header.parts.map(({ bytes }) => data.slice(at, (at += bytes)));
  return { header, payloads };
}

/** A subscription that is kept open for ever, unless the server is newer than what is known here. */
export class Subscription {
  #url: string;
  #tables: string[];
  #tell: Listener;
  #wait = FIRST_WAIT_MS;
  #socket: WebSocket | null = null;
  #held: { generation: number; seq: number } | undefined; // what a new socket goes on from
  #whole = true; // all tables stand at one position
  #answered = false; // by this socket

  constructor(url: string, tables: string[], tell: Listener) {
    this.#url = url;
    this.#tables = tables;
    this.#tell = tell;
    this.#open();
  }

  /** The tables that what has come can be checked of: none while fresh ones are on their way. */
  get settled(): string[] {
    return this.#whole && this.#answered ? this.#tables : [];
  }

  /** Subscribe to other tables, or to the same anew. They come as fresh snapshots, over the same socket. */
  change(tables: string[]): void {
    this.#tables = tables;
    this.#held = undefined;
    this.#whole = false;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ subscribe: tables }));
  }

  #open(): void {
    const socket = new WebSocket(this.#url, SUBPROTOCOL);
    this.#socket = socket;
    this.#answered = false;
    socket.binaryType = "arraybuffer";
    let why = "not connected";
    const silent = () => {
      why = "livejoin is silent";
      socket.close();
    };
    let silence = setTimeout(silent, SILENCE_MS);
    socket.onopen = () => socket.send(JSON.stringify({ subscribe: this.#tables, resume: this.#held }));
    socket.onmessage = ({ data }) => {
      clearTimeout(silence);
      silence = setTimeout(silent, SILENCE_MS);
      let frame;
      try {
        frame = readFrame(data);
      } catch (error) {
        if (!(error instanceof UnsupportedFormat)) throw error;
        clearTimeout(silence);
        socket.onclose = null; // trying again is of no use
        socket.close();
        this.#tell.refused(error.message);
        return;
      }
      this.#wait = FIRST_WAIT_MS;
      this.#tell.connected();
      if (frame.header.type === "error") why = frame.header.message ?? why;
      this.#hold(frame.header);
      this.#tell.frame(frame);
    };
    socket.onclose = () => {
      clearTimeout(silence);
      const wait = this.#wait * (0.5 + Math.random()); // spread, so that a thousand do not come back at once
      this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
      this.#tell.lost(why, Date.now() + wait);
      dispatchEvent(new Event("livejoin-disconnected")); // the session may have ended
      setTimeout(() => this.#open(), wait);
    };
  }

  #hold({ type, generation, seq, parts }: FrameHeader): void {
    if (type === "data" || type === "cutover") this.#answered = true;
    if (type === "error" || generation === null) return;
    const whole = new Set(parts.filter(({ kind }) => kind === "snapshot").map(({ table }) => table));
    this.#whole ||= this.#tables.every((table) => whole.has(table));
    if (this.#whole) this.#held = { generation, seq };
  }
}
