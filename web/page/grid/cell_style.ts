/** How the values of cells look: a null the same way in every column, and zero in the colour of numbers. */

import type { GridElement } from "./perspective.js";
import { styleSheet } from "./style_sheet.js";

const NUMBERS = ["integer", "float"];

// a text that is a dash is not muted
const SHEET = styleSheet(`
  regular-table :is(td, th).psp-null::after { content: "–"; color: var(--muted) }
  regular-table td.zero { color: var(--psp-datagrid--pos-cell--color) }
`);

/** To be called before the first draw. */
export function styleCells(grid: GridElement): void {
  const table = grid.regular_table;
  grid.shadowRoot!.adoptedStyleSheets.push(SHEET);
  table.addStyleListener(() => {
    for (const td of table.querySelectorAll("tbody td")) {
      const { x, user } = table.getMeta(td) ?? {};
      // the engine colours what is positive or negative
      td.classList.toggle("zero", user === 0 && NUMBERS.includes(grid.model?._column_types[x ?? -1] ?? ""));
    }
  });
}
