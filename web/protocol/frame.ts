/** Frames of the live protocol. See docs/live-protocol.md. */

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
  gone?: string[]; // requested tables that do not exist now
  viewers?: number;
  sources?: Record<string, SourceCounts>;
};
export type Frame = { header: FrameHeader; payloads: ArrayBuffer[] };

const FORMAT = 1; // the newest frame format that this client knows

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
