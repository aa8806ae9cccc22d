// @ts-check
/**
 * The client's side of `livejoin.v1`: one socket, frames taken apart, reconnecting by itself.
 * Knows nothing of grids: whoever uses it is given headers and Arrow payloads, in order.
 */

/** @typedef {{table: string, kind: "snapshot" | "upsert" | "remove", bytes: number}} PartHeader */
/** @typedef {{type: "data" | "cutover" | "heartbeat" | "error", generation: number | null, seq: number, at: number,
 *   parts: PartHeader[], newest?: number | null, stale?: string | null, message?: string,
 *   tables?: Record<string, {rows: number, hash: string}>,
 *   limited?: Record<string, {total: number}>, resumed?: boolean}} Header */
/** @typedef {{header: Header, payloads: ArrayBuffer[]}} Frame */

const SUBPROTOCOL = "livejoin.v1";
const SILENCE_MS = 5000; // heartbeats come every second
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;

/** @param {ArrayBuffer} data @returns {Frame} */
export function readFrame(data) {
  const size = new DataView(data).getUint32(0);
  const header = /** @type {Header} */ (JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size))));
  let at = 4 + size;
  const payloads = header.parts.map(({ bytes }) => data.slice(at, (at += bytes)));
  return { header, payloads };
}

/**
 * Keep a subscription open for ever.
 * @param {string} url of the socket
 * @param {string[]} tables
 * @param {{frame: (frame: Frame) => void, connected: (yes: boolean) => void}} tell
 */
export function subscribe(url, tables, tell) {
  let wait = FIRST_WAIT_MS;
  /** @type {{generation: number, seq: number} | undefined} */ let held; // what a new socket goes on from

  const open = () => {
    const socket = new WebSocket(url, SUBPROTOCOL);
    socket.binaryType = "arraybuffer";
    let silence = setTimeout(() => socket.close(), SILENCE_MS);
    socket.onopen = () => socket.send(JSON.stringify({ subscribe: tables, resume: held }));
    socket.onmessage = ({ data }) => {
      clearTimeout(silence);
      silence = setTimeout(() => socket.close(), SILENCE_MS);
      wait = FIRST_WAIT_MS;
      tell.connected(true);
      const frame = readFrame(data);
      const { type, generation, seq } = frame.header;
      if (type !== "error" && generation !== null) held = { generation, seq };
      tell.frame(frame);
    };
    socket.onclose = () => {
      clearTimeout(silence);
      tell.connected(false);
      dispatchEvent(new Event("livejoin-lost")); // maybe since livejoin does not know us any more
      setTimeout(open, wait * (0.5 + Math.random())); // spread, so that a thousand do not come back at once
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
  };
  open();
}
