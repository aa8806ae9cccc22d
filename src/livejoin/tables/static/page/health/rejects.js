/** List of the newest rejects, and the selected one down to its bytes. */
import { button, descriptionList, element } from "../ui/dom.js";
import { plural } from "../ui/format.js";
import { formatTime } from "../ui/time_format.js";
const MAX_LISTED = 50;
const MAX_BYTES = 4096; // livejoin keeps no more of a value
const BYTES_PER_LINE = 16;
export class RejectsList {
    #tables;
    #list;
    #detail;
    #selected = "";
    constructor(tables, list, detail) {
        this.#tables = tables;
        this.#list = list;
        this.#detail = detail;
    }
    async draw() {
        const rejects = await this.#tables.rows("rejects_ui", { sort: [["ts", "desc"]] });
        if (!rejects.length) {
            this.#list.replaceChildren(element("p", { class: "muted" }, "None: every record of the live topics is valid."));
            this.#detail.replaceChildren();
            return;
        }
        const items = rejects.slice(0, MAX_LISTED).map((reject) => this.#item(reject));
        const more = rejects.length - MAX_LISTED;
        const rest = `and ${plural(more, "older one")}, in the tab rejects_ui`;
        if (more > 0)
            items.push(element("p", { class: "muted" }, rest));
        this.#list.replaceChildren(...items);
    }
    #item(reject) {
        const item = button("", { class: "row", "aria-pressed": reject._id === this.#selected }, () => {
            this.#selected = reject._id;
            for (const other of this.#list.querySelectorAll("[aria-pressed]")) {
                other.setAttribute("aria-pressed", String(other === item));
            }
            this.#showDetail(reject);
        });
        item.append(element("span", { class: "muted" }, `${reject.source} ${reject.partition}-${reject.offset}`), element("span", {}, reject.reason));
        return item;
    }
    #showDetail({ source, topic, partition, offset, ts, reason, raw }) {
        const bytes = bytesOf(raw ?? "");
        this.#detail.replaceChildren(descriptionList([
            ["Reason", reason],
            ["Source", source],
            ["Where", `${topic}, partition ${partition}, offset ${offset}`],
            ["When", formatTime(ts)],
            ["Size", `${plural(bytes.length, "byte")}${bytes.length >= MAX_BYTES ? ", the first 4 KiB" : ""}`],
        ]), element("pre", { class: "raw", tabindex: 0, "aria-label": "the value as text" }, raw ?? "(no value)"), element("pre", { class: "raw hex", tabindex: 0, "aria-label": "the value in hexadecimal" }, hexDump(bytes)));
    }
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
