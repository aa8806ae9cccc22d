/** A sortable HTML table that has only the visible rows in the document. Cells are inserted as text, never as HTML. */

import { isDecimal } from "../protocol/arrow.js";
import type { Column, Cell, Row, Table } from "../../src/livejoin/tables/static/livejoin.js";

const OVERSCAN = 8; // rows rendered beyond either edge, so that scrolling shows no gaps
const MAX_CELL_LENGTH = 1000; // a cell may hold a megabyte, which is slow to render
const IDLE_FACTOR = 4; // pause relative to the rendering time, so that a large table does not block the page

export class RowGrid {
  readonly element = create("div", { id: "scroll", role: "region", tabindex: "0" });
  #table: Table | null = null;
  #columns: Column[] = [];
  #order: string[] = []; // row ids in display order
  #sort = { column: "", descending: false };
  #outdated = false; // rows changed since they were ordered
  #scheduled = false;
  #renderedAt = 0;
  #renderMs = 0;
  #rowHeight = 24; // measured once there is a row
  #grid = create("table", {});
  #caption = document.createElement("caption");
  #headerRow = create("tr", { "aria-rowindex": "1" });
  #body = document.createElement("tbody");

  constructor() {
    const head = document.createElement("thead");
    head.append(this.#headerRow);
    this.#grid.append(this.#caption, head, this.#body);
    this.element.append(this.#grid);
    this.element.addEventListener("scroll", () => this.#renderRows(), { passive: true });
    new ResizeObserver(() => this.#renderRows()).observe(this.element);
  }

  show(table: Table): void {
    this.#table = table;
    this.element.setAttribute("aria-label", table.name);
    this.#caption.textContent = table.name;
  }

  clear(): void {
    this.#table = null;
    this.#order = [];
  }

  rowsChanged(): void {
    this.#outdated = true;
    this.#scheduleRender();
  }

  /** Render with the next animation frame, after a pause that leaves time for the rest of the page. */
  #scheduleRender(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const wait = Math.max(0, this.#renderedAt + IDLE_FACTOR * this.#renderMs - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.#render()), wait);
  }

  #render(): void {
    this.#scheduled = false;
    const start = performance.now();
    if (this.#outdated && this.#table) {
      this.#outdated = false;
      this.#renderHeader(this.#table.columns.filter(({ name }) => !name.startsWith("_")));
      this.#orderRows(this.#table);
    }
    this.#renderRows();
    this.#renderedAt = performance.now();
    this.#renderMs = this.#renderedAt - start;
  }

  #renderHeader(columns: Column[]): void {
    const same = columns.length === this.#columns.length;
    const kept = ({ name, type }: Column, i: number) => name === this.#columns[i]?.name && type === this.#columns[i]?.type;
    if (same && columns.every(kept)) return;
    this.#columns = columns;
    if (!columns.some(({ name }) => name === this.#sort.column)) this.#sort = { column: "", descending: false };
    this.#grid.setAttribute("aria-colcount", String(columns.length));
    this.#grid.style.minWidth = `${columns.length * 6}em`;
    this.#headerRow.replaceChildren(
      ...columns.map(({ name, type }) => {
        const cell = create("th", { scope: "col", ...alignment(type) });
        const button = create("button", { type: "button" });
        button.textContent = name;
        button.addEventListener("click", () => this.#sortBy(name));
        cell.append(button);
        return cell;
      }),
    );
    this.#body.replaceChildren(spacer(), spacer());
    this.#showSort();
  }

  /** Ascending, then descending, then the order in which rows arrived. */
  #sortBy(column: string): void {
    const { column: previous, descending } = this.#sort;
    this.#sort =
      previous === column
        ? { column: descending ? "" : column, descending: !descending }
        : { column, descending: false };
    if (!this.#sort.column) this.#order = [];
    this.#showSort();
    this.rowsChanged();
  }

  #showSort(): void {
    const direction = this.#sort.descending ? "descending" : "ascending";
    for (const [i, { name }] of this.#columns.entries()) {
      this.#headerRow.children[i]?.setAttribute("aria-sort", name === this.#sort.column ? direction : "none");
    }
  }

  /** Starts from the previous order: equal rows do not jump, and sorting finds most of its work done. */
  #orderRows(table: Table): void {
    const order = this.#order.filter((id) => table.row(id));
    const known = new Set(order);
    for (const { _id } of table.rows()) if (!known.has(_id)) order.push(_id);
    const { column, descending } = this.#sort;
    if (column) {
      const type = table.columns.find(({ name }) => name === column)?.type ?? "string";
      const cells = new Map(order.map((id) => [id, orderOf(table.row(id)?.[column] ?? null, type)]));
      order.sort((a, b) => compare(cells.get(a) ?? null, cells.get(b) ?? null, descending));
    }
    this.#order = order;
    this.#grid.setAttribute("aria-rowcount", String(order.length + 1));
  }

  #renderRows(): void {
    if (!this.#table || !this.#columns.length) return;
    const { scrollTop, clientHeight } = this.element;
    const count = Math.ceil(clientHeight / this.#rowHeight) + 2 * OVERSCAN;
    const last = Math.max(0, this.#order.length - count);
    const first = Math.min(Math.max(0, Math.floor(scrollTop / this.#rowHeight) - OVERSCAN), last);
    const ids = this.#order.slice(first, first + count);
    const [above, below] = [this.#body.firstElementChild, this.#body.lastElementChild];
    const rows = [...this.#body.children].slice(1, -1);
    while (rows.length > ids.length) rows.pop()?.remove();
    while (rows.length < ids.length) {
      const row = document.createElement("tr");
      row.append(...this.#columns.map(({ type }) => create("td", alignment(type))));
      below?.before(row);
      rows.push(row);
    }
    for (const [i, id] of ids.entries()) this.#fillRow(rows[i]!, first + i, this.#table.row(id));
    setHeight(above, first * this.#rowHeight);
    setHeight(below, (this.#order.length - first - ids.length) * this.#rowHeight);
    this.#measure(rows[0]);
  }

  #fillRow(row: Element, index: number, cells: Row | undefined): void {
    row.setAttribute("aria-rowindex", String(index + 2)); // 1 is the header
    for (const [c, { name, type }] of this.#columns.entries()) {
      const cell = row.children[c] as HTMLElement;
      const value = cells?.[name] ?? null;
      const text = format(value, type);
      cell.classList.toggle("null", value === null); // its dash is no text that could be copied
      if (cell.textContent === text) continue;
      cell.textContent = text;
      cell.title = text; // the cell may be too narrow
    }
  }

  /** The row height depends on the page's font. */
  #measure(row: Element | undefined): void {
    const height = row?.getBoundingClientRect().height;
    if (!height || Math.abs(height - this.#rowHeight) < 0.01) return;
    this.#rowHeight = height;
    this.#scheduleRender();
  }
}

/** What a cell is sorted by: a decimal is text, and all of a column have the same places. */
function orderOf(cell: Cell, type: Column["type"]): Cell {
  return isDecimal(type) && typeof cell === "string" ? BigInt(cell.replace(".", "")) : cell;
}

/** Nulls come last in either direction. */
function compare(a: Cell, b: Cell, descending: boolean): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  if (a < b) return descending ? 1 : -1;
  return a > b ? (descending ? -1 : 1) : 0;
}

function format(cell: Cell, type: Column["type"]): string {
  if (cell === null) return "";
  if (typeof cell === "string") return cell.length > MAX_CELL_LENGTH ? `${cell.slice(0, MAX_CELL_LENGTH)}…` : cell;
  if (type !== "timestamp") return String(cell);
  const time = new Date(Number(cell));
  return Number.isNaN(time.valueOf()) ? String(cell) : time.toISOString(); // out of the range of Date
}

const alignment = (type: Column["type"]) => (type === "string" || type === "boolean" ? {} : { class: "number" });

function setHeight(row: Element | null, height: number): void {
  (row as HTMLElement).style.height = `${height}px`;
}

/** Stands in for the rows above or below the visible ones. */
function spacer(): HTMLElement {
  const row = create("tr", { class: "spacer", "aria-hidden": "true" });
  row.append(document.createElement("td"));
  return row;
}

function create(tag: string, attributes: Record<string, string>): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
