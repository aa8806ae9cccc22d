/** The order of a table's rows: as they arrived, unless the user sorts, and a mode that follows the newest row. */

import type { Config, RegularTable, Sort } from "./perspective.js";

export type Direction = "desc" | "asc"; // newest first, or last

/** Columns with the order of arrival; of a data table, the time of the newest record behind the row. */
const ARRIVAL: Record<string, string[]> = {
  orchestrator_logs: ["ts", "_id"], // lines of one decision share a timestamp
  control_raw: ["_id"], // in the order of reading, whatever the partition
  generations: ["generation"],
  audit: ["_id"],
  orchestrator_status: [], // one row
};

export const arrivalSort = (table: string, direction: Direction): Sort[] =>
  (ARRIVAL[table] ?? ["_ts"]).map((column) => [column, direction]);

/** Which end the newest row is at; null if the rows are sorted in another way. */
export function arrivalDirection(table: string, { sort = [] }: Config): Direction | null {
  const same = (direction: Direction) => JSON.stringify(sort) === JSON.stringify(arrivalSort(table, direction));
  return same("desc") ? "desc" : same("asc") ? "asc" : null;
}

/** Groups have an order of their own. */
const isPlain = ({ group_by = [], split_by = [] }: Config): boolean => !group_by.length && !split_by.length;

/**
 * The sort that a configuration should have and has not: rows in no order would be sorted by the text of their id, and
 * groups by the number of their rows. Undefined if it is as it should be.
 */
export function correctedSort(table: string, config: Config, direction: Direction): Sort[] | undefined {
  if (isPlain(config)) {
    const arrival = arrivalSort(table, direction);
    return config.sort?.length || !arrival.length ? undefined : arrival;
  }
  return config.sort?.length && arrivalDirection(table, config) ? [] : undefined;
}

/** A click on a heading: descending, ascending, and in the order of arrival again. `add`: beside the other columns. */
export function nextSort(table: string, config: Config, column: string, add: boolean, direction: Direction): Sort[] {
  const sort = arrivalDirection(table, config) ? [] : (config.sort ?? []);
  const now = sort.find(([each]) => each === column)?.[1];
  const next: Sort[] = now === "asc" ? [] : [[column, now === "desc" ? "asc" : "desc"]];
  const at = sort.findIndex(([each]) => each === column);
  const sorted = !add ? next : at < 0 ? [...sort, ...next] : sort.toSpliced(at, 1, ...next);
  return sorted.length || !isPlain(config) ? sorted : arrivalSort(table, direction);
}

/** Keeps the last row in view while rows are added, until the user scrolls up. */
export class Tail {
  #table: RegularTable;
  #following = false;
  #atEnd = true;
  #top = 0;

  constructor(table: RegularTable) {
    this.#table = table;
    table.addStyleListener(() => requestAnimationFrame(() => this.#scroll()));
    table.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  set following(following: boolean) {
    if (following === this.#following) return;
    this.#following = following;
    this.#atEnd = true;
    this.#scroll();
  }

  #scroll(): void {
    const { scrollHeight, clientHeight, scrollTop } = this.#table;
    if (!this.#following || !this.#atEnd || !this.#table.offsetParent) return;
    if (scrollHeight - clientHeight - scrollTop > 1) this.#table.scrollTop = scrollHeight;
  }

  #scrolled(): void {
    const { scrollHeight, clientHeight, scrollTop } = this.#table;
    const up = scrollTop < this.#top;
    this.#top = scrollTop;
    if (scrollHeight - clientHeight - scrollTop < 30) this.#atEnd = true;
    else if (up) this.#atEnd = false;
  }
}
