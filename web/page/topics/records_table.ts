/** The records of a page, one per row. Opened values stay open while the same records are shown in another way. */

import type { TopicRecord } from "../../protocol/api_types.js";
import { element } from "../ui/dom.js";
import { positionText } from "../ui/format.js";
import { headersCell, keyCell, timeOf, valueCell } from "./record_cells.js";
import type { RecordStyle } from "./record_cells.js";

const COLUMNS = ["Partition/offset", "Time", "Key", "Headers", "Value"] as const;

export class RecordsTable {
  readonly root = element("table", { class: "topic-records" });
  #records: TopicRecord[] = [];
  #open = new Set<string>(); // positions of opened values
  #style: RecordStyle = { parsed: true, search: "" };

  constructor() {
    this.root.append(element("caption", { class: "visually-hidden" }, "records"));
    const headings = COLUMNS.map((name) => element("th", { scope: "col", "data-column": name }, name));
    this.root.append(element("thead", {}, element("tr", {}, ...headings)), element("tbody"));
  }

  /** Show other records. The value at `opened`, a position, is shown whole. */
  show(records: TopicRecord[], search: string, opened = ""): void {
    this.#records = records;
    this.#open = new Set([opened]);
    this.#style = { ...this.#style, search };
    this.redraw();
  }

  get parsed(): boolean {
    return this.#style.parsed;
  }

  set parsed(parsed: boolean) {
    this.#style = { ...this.#style, parsed };
    this.redraw();
  }

  /** Also needed after times are shown in another zone. */
  redraw(): void {
    this.root.hidden = !this.#records.length;
    this.root.dataset["parsed"] = String(this.parsed);
    this.root.tBodies[0]?.replaceChildren(...this.#records.map((record) => this.#row(record)));
  }

  #row(record: TopicRecord): HTMLElement {
    const position = positionText(record);
    const toggled = (open: boolean) => void (open ? this.#open.add(position) : this.#open.delete(position));
    const cells: (Node | string)[][] = [
      [position],
      [timeOf(record)],
      [keyCell(record, this.#style)],
      [headersCell(record)],
      valueCell(record, this.#style, this.#open.has(position), toggled),
    ];
    return element(
      "tr",
      { "data-position": position },
      ...cells.map((content, at) => element("td", { "data-column": COLUMNS[at]! }, ...content)),
    );
  }
}
