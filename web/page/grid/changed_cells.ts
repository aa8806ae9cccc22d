/** Marks the cells of one grid that have just changed, wherever they are drawn, for a second. */

import type { GridElement, RegularTable } from "./perspective.js";
import { styleSheet } from "./style_sheet.js";

const MARKED_MS = 1000;
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SHEET = styleSheet("regular-table tbody td.changed { background-color: var(--changed) !important }");

type Cell = { td: Element; id: string; column: string; value: unknown };
type Times = Map<string, number>;

export class ChangedCells {
  #grid: GridElement;
  #table: RegularTable;
  #view: unknown; // what was drawn last
  #drawn = new Map<string, Map<string, unknown>>(); // its values, by row id and column
  #arrived: Times = new Map(); // ids of rows that were sent just now
  #changed = new Map<string, Times>(); // by row id and column
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(grid: GridElement) {
    this.#grid = grid;
    this.#table = grid.regular_table;
    grid.shadowRoot!.adoptedStyleSheets.push(SHEET);
    this.#table.addStyleListener(() => {
      const cells = this.#cells();
      this.#compare(cells);
      this.#mark(cells);
    });
  }

  /** Rows were added or changed. Those that come into view by that are marked whole. */
  rowsArrived(ids: string[]): void {
    if (STILL.matches || !this.#table.offsetParent) return;
    const now = performance.now();
    forgetOld(this.#arrived, now);
    for (const id of ids) this.#arrived.set(id, now);
  }

  #cells(): Cell[] {
    const { model } = this.#grid;
    if (!model) return [];
    return [...this.#table.querySelectorAll("tbody td")].flatMap((td) => {
      const { x, y, y0, user } = this.#table.getMeta(td) ?? {};
      const id = model._ids[(y ?? 0) - (y0 ?? 0)];
      if (x === undefined || !id) return [];
      return [{ td, id: id.join("|"), column: model._column_paths[x] ?? "", value: user }];
    });
  }

  /** Find what has changed since the last draw. In another table or arrangement nothing has. */
  #compare(cells: Cell[]): void {
    const view = this.#grid.model?._view;
    const comparable = view === this.#view && !STILL.matches;
    const now = performance.now();
    const before = this.#drawn;
    this.#view = view;
    this.#drawn = new Map();
    if (!comparable) this.#changed.clear();
    for (const { id, column, value } of cells) {
      let row = this.#drawn.get(id);
      if (!row) this.#drawn.set(id, (row = new Map()));
      row.set(column, value);
      if (!comparable) continue;
      const old = before.get(id);
      const arrived = this.#arrived.get(id);
      if (old ? old.has(column) && old.get(column) !== value : arrived !== undefined) {
        let times = this.#changed.get(id);
        if (!times) this.#changed.set(id, (times = new Map()));
        times.set(column, old ? now : arrived!);
      }
    }
    forgetOld(this.#arrived, now);
  }

  #mark(cells: Cell[]): void {
    const now = performance.now();
    for (const [id, times] of this.#changed) {
      forgetOld(times, now);
      if (!times.size) this.#changed.delete(id);
    }
    for (const { td, id, column } of cells) {
      td.classList.toggle("changed", this.#changed.get(id)?.has(column) === true);
    }
    if (!this.#changed.size || this.#timer) return;
    const oldest = Math.min(...[...this.#changed.values()].flatMap((times) => [...times.values()]));
    const unmark = () => {
      this.#timer = undefined;
      this.#mark(this.#cells());
    };
    this.#timer = setTimeout(unmark, Math.max(50, oldest + MARKED_MS - now));
  }
}

function forgetOld(times: Times, now: number): void {
  for (const [key, at] of times) if (now - at >= MARKED_MS) times.delete(key);
}
