/** Rejects grouped by reason; of the selected group its newest records, one of them down to its bytes. */

import type { RejectRow } from "../../protocol/api_types.js";
import type { GridTables } from "../grid/grid_tables.js";
import { button, byId, element, setChildren, setText } from "../ui/dom.js";
import { formatCount, plural, positionText } from "../ui/format.js";
import { formatTime } from "../ui/time_format.js";
import { rejectDetail } from "./reject_detail.js";
import { groupRejects } from "./reject_groups.js";
import type { Reject, RejectGroup } from "./reject_groups.js";

const MAX_LISTED = 50; // records of a group
const COLUMNS = ["_id", "source", "topic", "partition", "offset", "ts", "reason"]; // without the bytes

export class RejectsCard {
  #tables: GridTables;
  #list = byId("rejects-list");
  #groupTitle = element("h4");
  #records = element("div", { class: "records scroll", role: "group", "aria-label": "records, newest first" });
  #record = element("div", { class: "record" });
  #items = new Map<string, HTMLButtonElement>(); // by group, then by record: they stay, with the focus
  #groups: RejectGroup[] = [];
  #group = ""; // the selected one
  #shown = ""; // _id of the record whose bytes are shown
  #changed = true;
  #reading: Promise<Reject[]> | null = null;

  constructor(tables: GridTables) {
    this.#tables = tables;
  }

  /** Rows of `rejects_ui` have changed. */
  rowsChanged(): void {
    this.#changed = true;
  }

  /** Draw what has changed since the last time. `counts` are the server's, of all records that it read. */
  async draw(counts: ReadonlyMap<string, number>): Promise<void> {
    if (this.#changed && !this.#reading) {
      this.#changed = false;
      this.#reading = this.#tables.rows<Reject>("rejects_ui", { columns: COLUMNS, sort: [["ts", "desc"]] });
      this.#groups = groupRejects(await this.#reading.finally(() => (this.#reading = null)));
    }
    this.#drawNote(counts);
    this.#drawGroups();
    this.#drawRecords();
    for (const [key, item] of this.#items) if (!item.isConnected) this.#items.delete(key);
  }

  #drawNote(counts: ReadonlyMap<string, number>): void {
    const all = [...counts].map(([source, count]) => `${formatCount(count)} of ${source}`).join(", ");
    const listed = this.#groups.reduce((sum, { rejects }) => sum + rejects.length, 0);
    const groups = `The groups are of the newest ones, which rejects_ui keeps: ${formatCount(listed)}.`;
    setText(byId("rejects-note"), all && `Rejected since this generation began to read: ${all}. ${groups}`);
  }

  #drawGroups(): void {
    const none = element("p", { class: "muted" }, "None: every record of the live topics is valid.");
    const items = this.#groups.map(({ key, source, rule, rejects }) => {
      const parts = [formatCount(rejects.length), source, rule];
      return this.#item(`group ${key}`, parts, key === this.#group, () => this.#selectGroup(key));
    });
    setChildren(this.#list, items.length ? items : [none]);
  }

  #drawRecords(): void {
    const group = this.#groups.find(({ key }) => key === this.#group);
    const detail = byId("reject-detail");
    if (!group) return detail.replaceChildren();
    const { source, rule, rejects } = group;
    setText(this.#groupTitle, `${source}: ${rule} (${plural(rejects.length, "record")})`);
    const items: HTMLElement[] = rejects.slice(0, MAX_LISTED).map((reject) => {
      const parts = [positionText(reject), formatTime(reject.ts), reject.reason];
      return this.#item(`record ${reject._id}`, parts, reject._id === this.#shown, () => this.#showRecord(reject._id));
    });
    const more = rejects.length - MAX_LISTED;
    const rest = `and ${plural(more, "older one")}, in the tab rejects_ui`;
    if (more > 0) items.push(element("p", { class: "muted" }, rest));
    setChildren(this.#records, items);
    setChildren(detail, [this.#groupTitle, this.#records, this.#record]);
  }

  /** A row that selects something; the same element as long as it is drawn. */
  #item(key: string, parts: string[], pressed: boolean, onClick: () => void): HTMLButtonElement {
    const item = this.#items.get(key) ?? button("", { class: "row" }, onClick);
    this.#items.set(key, item);
    item.setAttribute("aria-pressed", String(pressed));
    parts.forEach((text, i) => setText(item.children[i] ?? item.appendChild(element("span")), text));
    return item;
  }

  #selectGroup(key: string): void {
    this.#group = key;
    const newest = this.#groups.find((group) => group.key === key)?.rejects[0];
    this.#drawGroups();
    if (newest) this.#showRecord(newest._id);
  }

  #showRecord(id: string): void {
    this.#shown = id;
    this.#drawRecords();
    void this.drawDetail();
  }

  /** The bytes are read when they are shown: a table of rejects may hold 40 MB of them. */
  async drawDetail(): Promise<void> {
    const id = this.#shown;
    const [reject] = await this.#tables.rows<RejectRow>("rejects_ui", { filter: [["_id", "==", id]] });
    if (id === this.#shown && reject) this.#record.replaceChildren(...rejectDetail(reject));
  }
}
