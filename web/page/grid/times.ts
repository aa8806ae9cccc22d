/** Times in a grid as everywhere on the page. By itself the engine writes them in the browser's language. */

import { formatTime } from "../ui/time_format.js";
import type { DataResponse, GridElement, GridModel } from "./perspective.js";

const DATE_CHARS = "2026-01-31".length;

/** To be called before the first draw. */
export function writeTimes(grid: GridElement): void {
  const table = grid.regular_table;
  const setDataListener = table.setDataListener.bind(table);
  table.setDataListener = (listener, options) =>
    setDataListener(async (x0, y0, x1, y1) => {
      const found = await listener(x0, y0, x1, y1);
      const { model } = grid;
      if (model) {
        writeCells(found, model, x0);
        writeGroups(found, model);
        writeSeries(found, model, x0);
      }
      return found;
    }, options);
}

/** Undefined for what is no time. */
function timeText(value: unknown, type: string | undefined): string | undefined {
  if (typeof value !== "number") return undefined;
  if (type === "datetime") return formatTime(value);
  return type === "date" ? new Date(value).toISOString().slice(0, DATE_CHARS) : undefined;
}

function writeCells({ data = [], metadata = [] }: DataResponse, model: GridModel, x0: number): void {
  for (const [at, cells] of data.entries()) {
    const type = model._column_types[x0 + at];
    for (const [row, cell] of cells.entries()) {
      const text = cell === "" ? undefined : timeText(metadata[at]?.[row], type);
      if (text === undefined) continue;
      if (cell instanceof HTMLElement) cell.textContent = text;
      else cells[row] = text;
    }
  }
}

/** The groups of rows: one heading for each, at its depth, or all of them in a flat grid. */
function writeGroups({ row_headers: headings = [] }: DataResponse, model: GridModel): void {
  const flat = model._config.group_rollup_mode === "flat";
  const types = model._row_header_types;
  if (!types.some((type) => type === "datetime" || type === "date")) return;
  for (const [row, cells] of headings.entries()) {
    const path = model._ids[row] ?? [];
    for (const [depth, value] of path.entries()) {
      const text = timeText(value, types[depth]);
      if (text === undefined || (!flat && depth < path.length - 1)) continue;
      cells[flat ? depth : depth + 1] = { toString: () => text }; // equal texts would be merged into one cell
    }
  }
}

/** The columns of a pivot: one heading for each value that splits them. */
function writeSeries({ column_headers: headings = [] }: DataResponse, model: GridModel, x0: number): void {
  for (const [depth, column] of (model._config.split_by ?? []).entries()) {
    for (const [at, cells] of headings.entries()) {
      const text = timeText(model._column_path_area[depth]?.[x0 + at], model._table_schema[column]);
      const heading = cells[depth];
      // the engine compares these objects to merge the headings of neighbours
      if (text !== undefined && heading instanceof Object) heading.toString = () => text;
    }
  }
}
