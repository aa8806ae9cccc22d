/** What a viewer shows, as a file or on the clipboard: just its rows and columns, filtered, sorted, grouped as they are. */

import type { Cells, View, Viewer, Window } from "./perspective.js";

export type Format = "csv" | "json" | "arrow";
const TYPES: Record<Format, string> = {
  csv: "text/csv;charset=utf-8",
  json: "application/json",
  arrow: "application/vnd.apache.arrow.file",
};
const PATH = "__ROW_PATH__"; // how the engine names the groups of a row
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would run it

export async function download(viewer: Viewer, name: string, format: Format): Promise<void> {
  const view = await viewer.getView();
  const data =
    format === "arrow"
      ? await view.to_arrow()
      : format === "csv"
        ? lines(await columns(view), ",", cell)
        : JSON.stringify(rows(await columns(view)), null, 1);
  save(new Blob([data], { type: TYPES[format] }), `${name}.${format}`);
}

/** The cells that are selected, or else all, as a spreadsheet takes them: with tabs between. Returns how many rows. */
export async function copy(viewer: Viewer): Promise<number> {
  const view = await viewer.getView();
  const cells = await columns(view, selected(viewer));
  await toClipboard(
    lines(cells, "\t", (value) =>
      typeof value === "string" ? harmless(value).replace(/[\t\r\n]+/g, " ") : text(value),
    ),
  );
  return height(cells);
}

/** What a person has drawn a frame around in the grid, if anything. */
export function selected(viewer: Viewer): Window | undefined {
  const found = viewer.getSelection();
  return found && found.end_row > found.start_row ? found : undefined;
}

async function toClipboard(what: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(what);
  throw new Error("the browser gives no clipboard to pages without TLS; export a file instead");
}

/** The cells of a view, its times as ISO texts. */
async function columns(view: View, window?: Window): Promise<Cells> {
  const [cells, schema] = await Promise.all([window ? view.to_columns(window) : view.to_columns(), view.schema()]);
  const time = (value: unknown) => (typeof value === "number" ? new Date(value).toISOString() : value);
  // of a pivot the names are paths, the last part of which is the column's
  const timed = (name: string) => schema[name.split("|").at(-1) ?? name] === "datetime";
  return Object.fromEntries(
    Object.entries(cells).map(([name, column]) => [name, timed(name) ? column.map(time) : column]),
  );
}

function rows(cells: Cells): Record<string, unknown>[] {
  const names = Object.keys(cells);
  return Array.from({ length: height(cells) }, (_, row) =>
    Object.fromEntries(names.map((name) => [name, cells[name]?.[row] ?? null])),
  );
}

/** A header and a line per row. */
export function lines(cells: Cells, between: string, shown: (value: unknown) => string): string {
  const names = Object.keys(cells).filter((name) => name === PATH || !name.startsWith("_"));
  const found = names.map((name) => cells[name] ?? []);
  const out = [names.map((name) => shown(name === PATH ? "group" : name)).join(between)];
  for (let row = 0; row < height(cells); row++) out.push(found.map((column) => shown(column[row])).join(between));
  return `${out.join("\n")}\n`;
}

/** A cell of a CSV file. Texts that a spreadsheet would take for a formula get an apostrophe, as livejoin's own CSV has it. */
export function cell(value: unknown): string {
  if (typeof value !== "string") return cellOf(text(value));
  return cellOf(harmless(value));
}

const harmless = (value: string) => (FORMULA.test(value) ? `'${value}` : value);
const cellOf = (value: string) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
const height = (cells: Cells) => Math.max(0, ...Object.values(cells).map((column) => column.length));

function text(value: unknown): string {
  if (value === null || value === undefined) return "";
  return Array.isArray(value) ? value.map(String).join(" / ") : String(value);
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // it has begun by then
}
