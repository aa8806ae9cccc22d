/** Rejects, the newest first, by reason; and one of them down to its bytes. */

import { button, facts, make } from "../ui/dom.js";
import type { Replicas } from "../grid/grid_tables.js";
import { moment } from "../ui/time_format.js";
import { counted } from "../../protocol/api_types.js";

type Reject = {
  _id: string;
  source: string;
  topic: string;
  partition: number;
  offset: number;
  ts: number;
  reason: string;
  raw: string | null;
};
const SHOWN = 50;
const PER_LINE = 16;

export class Rejects {
  #replicas: Replicas;
  #list: HTMLElement;
  #detail: HTMLElement;
  #chosen = "";

  constructor(replicas: Replicas, list: HTMLElement, detail: HTMLElement) {
    this.#replicas = replicas;
    this.#list = list;
    this.#detail = detail;
  }

  async draw(): Promise<void> {
    const all = await this.#replicas.rows<Reject>("rejects_ui", { sort: [["ts", "desc"]] });
    if (!all.length) {
      this.#list.replaceChildren(make("p", { class: "soft" }, "None: every record of the live topics fits."));
      this.#detail.replaceChildren();
      return;
    }
    const items = all.slice(0, SHOWN).map((one) => this.#item(one));
    const more =
      all.length > SHOWN
        ? [make("p", { class: "soft" }, `and ${counted(all.length - SHOWN, "older one")}; the tab rejects_ui has them`)]
        : [];
    this.#list.replaceChildren(...items, ...more);
  }

  #item(reject: Reject): HTMLElement {
    const item = button("", { class: "row", "aria-pressed": reject._id === this.#chosen }, () => {
      this.#chosen = reject._id;
      for (const other of this.#list.querySelectorAll("[aria-pressed]"))
        other.setAttribute("aria-pressed", String(other === item));
      this.#show(reject);
    });
    item.append(
      make("span", { class: "soft" }, `${reject.source} ${reject.partition}-${reject.offset}`),
      make("span", {}, reject.reason),
    );
    return item;
  }

  #show({ source, topic, partition, offset, ts, reason, raw }: Reject): void {
    const bytes = bytesOf(raw ?? "");
    this.#detail.replaceChildren(
      facts([
        ["Reason", reason],
        ["Source", source],
        ["Where", `${topic}, partition ${partition}, offset ${offset}`],
        ["When", moment(ts)],
        ["Bytes", `${counted(bytes.length, "byte")}${bytes.length >= 4096 ? ", the first 4 KiB" : ""}`],
      ]),
      make("pre", { class: "raw", tabindex: 0, "aria-label": "the value as text" }, raw ?? "(no value)"),
      make("pre", { class: "raw hex", tabindex: 0, "aria-label": "the value's bytes" }, hex(bytes)),
    );
  }
}

/** The bytes of a value that is shown as text: what was not UTF-8 stands there as `\xNN`. */
export function bytesOf(text: string): Uint8Array {
  const out: number[] = [];
  const encode = (part: string) => out.push(...new TextEncoder().encode(part));
  let last = 0;
  for (const found of text.matchAll(/\\x([0-9a-f]{2})/g)) {
    encode(text.slice(last, found.index));
    out.push(parseInt(found[1] ?? "", 16));
    last = found.index + found[0].length;
  }
  encode(text.slice(last));
  return new Uint8Array(out);
}

export function hex(bytes: Uint8Array): string {
  const lines = [];
  for (let at = 0; at < bytes.length; at += PER_LINE) {
    const some = [...bytes.slice(at, at + PER_LINE)];
    const left = some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const right = some.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${left.padEnd(PER_LINE * 3 - 1)}  ${right}`);
  }
  return lines.join("\n");
}
