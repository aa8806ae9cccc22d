/** Frames of the live protocol. See docs/live-protocol.md. */
const FORMAT = 1; // the newest frame format that this client knows
/** The frame's format is newer than this client: nothing else in it can be relied on. */
export class UnsupportedFormat extends Error {
}
export function readFrame(data) {
    const size = new DataView(data).getUint32(0);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
    const format = header.format ?? 1;
    if (!Number.isInteger(format) || Number(format) < 1 || Number(format) > FORMAT) {
        throw new UnsupportedFormat(`a frame has format ${format}, this page knows up to ${FORMAT}: the server is newer, reload the page`);
    }
    let at = 4 + size;
    const payloads = header.parts.map(({ bytes }) => data.slice(at, (at += bytes)));
    return { header, payloads };
}
