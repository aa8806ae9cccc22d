/** Sorting by the headings of a grid, with the mouse and with the keyboard. */

import { headings, nameOf } from "./columns.js";
import type { GridElement, RegularTable } from "./perspective.js";

const MOVES: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const ORDERS: Record<string, string> = { asc: "ascending", desc: "descending" };

/**
 * Headings can be focused: Tab enters them, arrow keys move between them, Enter sorts. `sort` is called with the column
 * and whether to keep the other columns that sort, which is what Shift or Ctrl asks for.
 */
export function enableHeadings(grid: GridElement, sort: (column: string, add: boolean) => void): void {
  const table = grid.regular_table;
  let current = 0;

  const show = () => {
    const all = sortable(table);
    current = Math.max(0, Math.min(current, all.length - 1));
    for (const [at, th] of all.entries()) {
      const tabIndex = at === current ? 0 : -1;
      if (th.tabIndex !== tabIndex || !th.hasAttribute("tabindex")) th.tabIndex = tabIndex;
      const name = columnOf(table, th);
      const order = grid.model?._config.sort?.find(([column]) => column === name)?.[1] ?? "";
      th.setAttribute("aria-sort", ORDERS[order] ?? "none");
    }
  };
  table.addStyleListener(() => requestAnimationFrame(show));

  // before the engine's own listener, for which Shift means absolute values
  grid.shadowRoot!.addEventListener(
    "mousedown",
    (event) => {
      const { target, button, shiftKey, ctrlKey, metaKey } = event as MouseEvent;
      if (button !== 0 || !(target instanceof Element) || target.closest(".rt-column-resize")) return;
      const th = sortable(table).find((each) => each.contains(target));
      if (!th) return;
      event.stopImmediatePropagation();
      sort(columnOf(table, th), shiftKey || ctrlKey || metaKey);
    },
    { capture: true },
  );

  table.addEventListener("keydown", (event) => {
    const all = sortable(table);
    const at = all.indexOf(event.target as HTMLElement);
    const th = all[at];
    if (!th || event.altKey) return;
    const move = MOVES[event.key];
    if (move !== undefined) {
      event.preventDefault();
      current = Math.max(0, Math.min(at + move, all.length - 1));
      show();
      all[current]?.focus({ preventScroll: true });
      reveal(table, all[current]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      sort(columnOf(table, th), event.shiftKey || event.ctrlKey || event.metaKey);
    }
  });
}

const columnOf = (table: RegularTable, th: Element): string => nameOf(table.getMeta(th) ?? { type: "column_header" });

/** The headings that sort: those of the engine's menus and of row groups do not. */
function sortable(table: RegularTable): HTMLElement[] {
  return headings(table).filter((th) => th.classList.contains("psp-sort-enabled"));
}

/** Scroll sideways until the heading is in view, beside the pinned column. */
function reveal(table: RegularTable, th: HTMLElement | undefined): void {
  if (!th || th.matches("[data-pinned] .rt-col-0")) return;
  const frame = table.getBoundingClientRect();
  const pinned = headings(table).find((each) => each.matches("[data-pinned] .rt-col-0"));
  const { left, right } = th.getBoundingClientRect();
  const start = pinned?.getBoundingClientRect().right ?? frame.left;
  if (left < start) table.scrollLeft -= start - left;
  else if (right > frame.right) table.scrollLeft += Math.min(right - frame.right + 16, left - start);
}
