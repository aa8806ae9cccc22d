/** A rejected record down to its bytes. */
import { browseTopic } from "../topics/topic_browser.js";
import { button, descriptionList, element } from "../ui/dom.js";
import { plural, positionText } from "../ui/format.js";
import { formatTime } from "../ui/time_format.js";
const MAX_BYTES = 4096; // livejoin keeps no more of a value
const BYTES_PER_LINE = 16;
export function rejectDetail({ topic, partition, offset, ts, reason, raw }) {
    const bytes = bytesOf(raw ?? "");
    return [
        descriptionList([
            ["Reason", reason],
            ["Where", recordLink(topic, { partition, offset })],
            ["When", formatTime(ts)],
            ["Size", `${plural(bytes.length, "byte")}${bytes.length >= MAX_BYTES ? ", the first 4 KiB" : ""}`],
        ]),
        element("pre", { class: "raw", tabindex: 0, "aria-label": "the value as text" }, raw ?? "(no value)"),
        element("pre", { class: "raw hex", tabindex: 0, "aria-label": "the value in hexadecimal" }, hexDump(bytes)),
    ];
}
/** Opens the record in its topic. */
function recordLink(topic, { partition, offset }) {
    const text = `${topic} ${positionText({ partition, offset })}`;
    const show = () => browseTopic(topic, { partition, offset });
    return button(text, { class: "link", title: "Show it among the records of its topic" }, show);
}
/** Bytes of a value shown as text, in which bytes that are not UTF-8 are written `\xNN`. */
function bytesOf(text) {
    const bytes = [];
    const encode = (part) => bytes.push(...new TextEncoder().encode(part));
    let last = 0;
    for (const match of text.matchAll(/\\x([0-9a-f]{2})/g)) {
        encode(text.slice(last, match.index));
        bytes.push(parseInt(match[1] ?? "", 16));
        last = match.index + match[0].length;
    }
    encode(text.slice(last));
    return new Uint8Array(bytes);
}
function hexDump(bytes) {
    const lines = [];
    for (let at = 0; at < bytes.length; at += BYTES_PER_LINE) {
        const chunk = [...bytes.slice(at, at + BYTES_PER_LINE)];
        const hex = chunk.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
        const ascii = chunk.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
        lines.push(`${at.toString(16).padStart(4, "0")}  ${hex.padEnd(BYTES_PER_LINE * 3 - 1)}  ${ascii}`);
    }
    return lines.join("\n");
}
