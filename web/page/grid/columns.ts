/**
 * The columns of one grid: the key stays in view while the others scroll sideways, those out of sight are reported,
 * and of a number at the edge either all digits are shown or none.
 *
 * The engine draws the columns that fit and scrolls by whole columns, so that none can stay in view. A plain grid is
 * therefore drawn with all its columns and scrolled by the browser.
 */

import type { CellMeta, DataListener, GridElement, RegularTable } from "./perspective.js";
import { styleSheet } from "./style_sheet.js";

/** Columns of which at least a part is out of sight, by name. */
export type OutOfSight = { left: string[]; right: string[] };

type Cut = [sizeKey: number, seen: "left" | "right"]; // a column, and which end of it is in view

const MOST_DRAWN = 60; // a pivot can have thousands
const MOST_PINNED = 0.6; // of the width: wider, it would leave no room for the others
const PADDING_PX = 4; // of a cell: this much may be out of sight without a digit being cut
const ALL_OR_NOTHING = ["integer", "float", "datetime"]; // types of which a part reads as another value

// the engine draws the lines of rows by an endless cell, which would be scrolled into
const SHEET = styleSheet(`
  regular-table[data-all] table { min-width: 100% }
  regular-table[data-all] :is(thead tr:last-child, tbody tr)::after {
    display: table-cell !important;
    width: 100% !important;
  }
  regular-table[data-pinned] :is(td, th).rt-col-0 { position: sticky; left: 0; z-index: 1; background: var(--card) }
  regular-table[data-pinned][data-scrolled] :is(td, th).rt-col-0 { box-shadow: 1px 0 0 var(--control-border) }
`);

export class GridColumns {
  #grid: GridElement;
  #table: RegularTable;
  #onChange: (found: OutOfSight) => void;
  #hidden = new CSSStyleSheet();
  #hiddenRules = "";
  #scheduled = false;

  /** `onChange` is called whenever columns are drawn, scrolled or resized. To be created before the first draw. */
  constructor(grid: GridElement, onChange: (found: OutOfSight) => void) {
    this.#grid = grid;
    this.#table = grid.regular_table;
    this.#onChange = onChange;
    grid.shadowRoot!.adoptedStyleSheets.push(SHEET, this.#hidden);
    drawAllColumns(this.#table);
    this.#table.addStyleListener(() => this.#schedule());
    this.#table.addEventListener("scroll", () => this.#schedule(), { passive: true });
    new ResizeObserver(() => this.#schedule()).observe(this.#table);
  }

  /** Scroll sideways to what is out of sight: to the right, at the end back to the first columns. */
  reveal(): void {
    const { scrollLeft, scrollWidth, clientWidth } = this.#table;
    const atEnd = scrollLeft + clientWidth >= scrollWidth - PADDING_PX;
    const pinned = this.#pinned()?.getBoundingClientRect().width ?? 0;
    this.#table.scrollTo({ left: atEnd ? 0 : scrollLeft + Math.max(60, clientWidth - pinned - 60) });
  }

  /** After the draw: the engine measures the columns last. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (this.#table.offsetParent) this.#look();
    });
  }

  #pinned(): HTMLElement | undefined {
    return headings(this.#table).find(
      (th) => th.matches("[data-pinned] .rt-col-0") || this.#table.getMeta(th)?.type === "corner",
    );
  }

  #look(): void {
    const table = this.#table;
    const { left, width } = table.getBoundingClientRect();
    const zoom = table.offsetWidth ? width / table.offsetWidth : 1;
    const first = headings(table)[0]?.getBoundingClientRect().width ?? 0;
    table.toggleAttribute("data-pinned", table.hasAttribute("data-all") && first <= MOST_PINNED * width);
    const pinned = this.#pinned();
    const leftEdge = pinned ? pinned.getBoundingClientRect().right : left;
    const rightEdge = left + table.clientWidth * zoom;
    const found: OutOfSight = { left: [], right: [] };
    const cut: Cut[] = [];
    for (const th of headings(table)) {
      const meta = table.getMeta(th);
      if (!meta || th === pinned || meta.type !== "column_header") continue;
      const box = th.getBoundingClientRect();
      const beyond = { left: leftEdge - box.left > PADDING_PX, right: box.right - rightEdge > PADDING_PX };
      if (beyond.left) found.left.push(nameOf(meta));
      else if (beyond.right) found.right.push(nameOf(meta));
      const partly = box.right > leftEdge && box.left < rightEdge;
      if ((beyond.left || beyond.right) && partly && this.#allOrNothing(meta)) {
        cut.push([meta.size_key ?? -1, beyond.left ? "right" : "left"]);
      }
    }
    found.right.push(...this.#notDrawn());
    table.toggleAttribute("data-scrolled", found.left.length > 0);
    this.#hide(cut);
    this.#onChange(found);
  }

  #allOrNothing(meta: CellMeta): boolean {
    return ALL_OR_NOTHING.includes(this.#grid.model?._column_types[meta.x ?? -1] ?? "");
  }

  /** Columns of a grouped grid or a pivot that are too far to the right to be drawn. */
  #notDrawn(): string[] {
    const last = headings(this.#table).at(-1);
    const { x } = (last && this.#table.getMeta(last)) ?? {};
    return (this.#grid.model?._column_paths ?? []).slice((x ?? Infinity) + 1);
  }

  /** In these columns show that there is a value, but no part of it. */
  #hide(cut: Cut[]): void {
    const rules = cut
      .map(
        ([key, seen]) => `
          tbody td.rt-col-${key} { color: transparent !important; position: relative }
          tbody td.rt-col-${key}::after { content: "" !important }
          tbody td.rt-col-${key}::before {
            content: "…";
            position: absolute;
            inset: auto 5px;
            text-align: ${seen};
            color: var(--muted);
          }`,
      )
      .join("");
    if (rules !== this.#hiddenRules) this.#hidden.replaceSync((this.#hiddenRules = rules));
  }
}

/** The cells with the names of the columns. */
export function headings(table: RegularTable): HTMLElement[] {
  const rows = [...table.querySelectorAll("thead tr")];
  const titles = rows.find(({ id }) => id === "psp-column-titles") ?? rows[0];
  return [...(titles?.children ?? [])] as HTMLElement[];
}

export const nameOf = (meta: CellMeta): string => meta.column_header?.filter(Boolean).at(-1) ?? "";

/** Have a plain grid drawn with all its columns; one with groups or very many columns as the engine does by itself. */
function drawAllColumns(table: RegularTable): void {
  const setDataListener = table.setDataListener.bind(table);
  let columns = 0; // of the newest view
  table.setDataListener = (listener, options) => {
    let all = true;
    const read: DataListener = async (x0, y0, x1, y1) => {
      limitWidthStyles(table, () => columns);
      const found = await listener(x0, y0, x1 === Infinity ? columns : x1, y1);
      columns = found.num_columns ?? 0;
      const plain = !found.num_row_headers && columns <= MOST_DRAWN;
      if (all && !plain) {
        // the engine asks for the size before anything else, and has not drawn yet
        all = false;
        setDataListener(read, { ...options, virtual_mode: "both" });
      }
      table.toggleAttribute("data-all", all);
      if (!all) table.removeAttribute("data-pinned");
      return found;
    };
    setDataListener(read, { ...options, virtual_mode: "vertical" });
  };
}

const limited = new WeakSet<object>();

/** Drawing all columns, the engine would style columns without end. */
function limitWidthStyles({ table_model: model }: RegularTable, columns: () => number): void {
  if (!model || limited.has(model)) return;
  limited.add(model);
  const update = model.updateColumnWidthStyles.bind(model);
  model.updateColumnWidthStyles = (viewport, rowHeaders) =>
    update({ ...viewport, end_col: Math.min(viewport.end_col, columns()) }, rowHeaders);
}
