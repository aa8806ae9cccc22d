/** Export and copy what a viewer shows: its rows and columns as they are filtered, sorted and grouped. */

import { formatTime } from "../ui/time_format.js";
import type { CellRange, Columns, View, Viewer } from "./perspective.js";

export type Format = "csv" | "json" | "arrow";
const MEDIA_TYPES: Record<Format, string> = {
  csv: "text/csv;charset=utf-8",
  json: "application/json",
  arrow: "application/vnd.apache.arrow.file",
};
const ROW_PATH = "__ROW_PATH__"; // Perspective's column for the groups of a row
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would evaluate it
const REVOKE_MS = 10_000; // the download has started by then

export async function download(viewer: Viewer, name: string, format: Format): Promise<void> {
  const view = await viewer.getView();
  const data =
    format === "arrow"
      ? await view.to_arrow()
      : format === "csv"
        ? toText(await readColumns(view), ",", csvCell)
        : JSON.stringify(toRows(await readColumns(view)), null, 1);
  saveFile(new Blob([data], { type: MEDIA_TYPES[format] }), `${name}.${format}`);
}

/**
 * Copy the selected cells, or all rows, separated by tabs as spreadsheets expect. Times are as shown; files have them
 * in UTC. Returns the number of rows.
 */
export async function copy(viewer: Viewer): Promise<number> {
  const columns = await readColumns(await viewer.getView(), formatTime, selection(viewer));
  const text = toText(columns, "\t", (value) =>
    typeof value === "string" ? escapeFormula(value).replace(/[\t\r\n]+/g, " ") : plainText(value),
  );
  await copyText(text);
  return rowCount(columns);
}

export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) {
    throw new Error("without TLS the browser denies access to the clipboard; export a file instead");
  }
  await navigator.clipboard.writeText(text);
}

/** The cells that the user has selected in the grid, if any. */
export function selection(viewer: Viewer): CellRange | undefined {
  const range = viewer.getSelection();
  return range && range.end_row > range.start_row ? range : undefined;
}

const isoTime = (ms: number): string => new Date(ms).toISOString();

/** The columns of a view, with times as text. */
async function readColumns(
  view: View,
  writeTime: (ms: number) => string = isoTime,
  range?: CellRange,
): Promise<Columns> {
  const [columns, schema] = await Promise.all([range ? view.to_columns(range) : view.to_columns(), view.schema()]);
  const asText = (value: unknown) => (typeof value === "number" ? writeTime(value) : value);
  // names in a pivot are paths that end with the column
  const isTime = (name: string) => schema[name.split("|").at(-1) ?? name] === "datetime";
  return Object.fromEntries(
    Object.entries(columns).map(([name, values]) => [name, isTime(name) ? values.map(asText) : values]),
  );
}

function toRows(columns: Columns): Record<string, unknown>[] {
  const names = Object.keys(columns);
  return Array.from({ length: rowCount(columns) }, (_, row) =>
    Object.fromEntries(names.map((name) => [name, columns[name]?.[row] ?? null])),
  );
}

/** A header line and one line per row. */
function toText(columns: Columns, separator: string, format: (value: unknown) => string): string {
  const names = Object.keys(columns).filter((name) => name === ROW_PATH || !name.startsWith("_"));
  const values = names.map((name) => columns[name] ?? []);
  const lines = [names.map((name) => format(name === ROW_PATH ? "group" : name)).join(separator)];
  for (let row = 0; row < rowCount(columns); row++) {
    lines.push(values.map((column) => format(column[row])).join(separator));
  }
  return `${lines.join("\n")}\n`;
}

function csvCell(value: unknown): string {
  const text = typeof value === "string" ? escapeFormula(value) : plainText(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Prefix an apostrophe to text that a spreadsheet would run, as the server's CSV does. */
const escapeFormula = (value: string) => (FORMULA.test(value) ? `'${value}` : value);
const rowCount = (columns: Columns) => Math.max(0, ...Object.values(columns).map((values) => values.length));

function plainText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return Array.isArray(value) ? value.map(String).join(" / ") : String(value);
}

function saveFile(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_MS);
}
