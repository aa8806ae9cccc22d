/**
 * The areas of the sources' tables: side by side between the join and livejoin's own tables, more than four in rows.
 * They are built from the spec. Of a folded table its heading stays, next to others as a narrow column.
 */

import type { JoinSpec } from "../../protocol/api_types.js";
import { element } from "../ui/dom.js";
import type { Sizes } from "../ui/splitters.js";
import type { Viewer } from "./perspective.js";

const MOST_ABREAST = 4;
const GAP = "8px"; // of a separator
const FOLDED = "220px";
const FIRST_SIZE = 5; // of the driver's table, relative to the others
const OTHER_SIZE = 4;
const OWN_AREAS = ["final", "system", "sources", "bottom"];

type Area = { name: string; table: string; section: HTMLElement };

export class SourceAreas {
  #root: HTMLElement;
  #areas: Area[] = [];

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Show areas for these sources; returns the viewers of the new ones. Sections of tables that stay are kept. */
  show(sources: JoinSpec["sources"]): Viewer[] {
    const before = new Map(this.#areas.map((area) => [area.table, area]));
    if (sources.map(({ table }) => table).join() === [...before.keys()].join()) return [];
    this.#areas = sources.map(({ name, table }) => before.get(table) ?? createArea(name, table));
    for (const separator of this.#root.querySelectorAll("[aria-orientation=vertical]")) separator.remove();
    for (const [table, { section }] of before) if (!sources.some((source) => source.table === table)) section.remove();
    let next = this.#root.querySelector("[data-between='sources bottom']")!;
    for (const { section } of [...this.#areas].reverse()) {
      if (section.nextElementSibling !== next) next.before(section); // a grid that stays is not moved
      next = section;
    }
    for (const [at, { section }] of this.#areas.entries()) {
      if (at % this.#abreast) section.before(this.#separator(at));
      section.style.gridArea = `source-${at}`;
    }
    this.arrange([]);
    const created = this.#areas.filter(({ table }) => !before.has(table));
    return created.map(({ section }) => section.querySelector<Viewer>("perspective-viewer")!);
  }

  get tables(): string[] {
    return this.#areas.map(({ table }) => table);
  }

  /** The sizes of areas whose size nobody has chosen. */
  get sizes(): Sizes {
    return Object.fromEntries(this.#areas.map(({ name }, at) => [name, at ? OTHER_SIZE : FIRST_SIZE]));
  }

  get #rows(): number {
    return Math.max(1, Math.ceil(this.#areas.length / MOST_ABREAST));
  }

  /** Columns of each row but the last, which may have fewer. */
  get #abreast(): number {
    return Math.max(1, Math.ceil(this.#areas.length / this.#rows));
  }

  /** The separator before an area; those of the first row resize the columns of all rows. */
  #separator(at: number): HTMLElement {
    const between = [this.#areas[at - 1]!.name, this.#areas[at]!.name];
    const line = element("div", {
      role: "separator",
      "aria-orientation": "vertical",
      "aria-label": `resize ${between.join(" and ")}`,
      tabindex: 0,
      "data-between": between.join(" "),
    });
    line.hidden = at >= this.#abreast;
    line.style.gridArea = `line-${at}`;
    return line;
  }

  /** Lay the areas out, some of them folded. */
  arrange(folded: readonly string[]): void {
    const isFolded = ({ name }: Area) => folded.includes(name);
    const rows = Array.from({ length: this.#rows }, (_, row) =>
      this.#areas.slice(row * this.#abreast, (row + 1) * this.#abreast),
    );
    const [first = []] = rows;
    const narrow = rows.length === 1 && !first.every(isFolded);
    const columns = first.map((area) =>
      narrow && isFolded(area) ? FOLDED : `minmax(140px, var(--size-${area.name}, ${OTHER_SIZE}fr))`,
    );
    const { style } = this.#root;
    this.#root.toggleAttribute("data-rows", rows.length > 1);
    style.gridTemplateColumns = columns.join(` ${GAP} `) || "1fr";
    const heights = rows.map((row) => (row.every(isFolded) ? "max-content" : "var(--row-sources)"));
    style.gridTemplateRows = ["var(--row-final)", GAP, heights.join(` ${GAP} `), GAP, "var(--row-bottom)"].join(" ");
    const width = Math.max(1, 2 * first.length - 1);
    const whole = (name: string) => Array.from({ length: width }, () => name);
    const lines = rows.flatMap((row, at) => {
      const cells = this.#cells(row, at, width);
      const gap = cells.map((_, cell) => (cell % 2 && cell < 2 * row.length - 1 ? `line-${(cell + 1) / 2}` : "."));
      return at ? [gap, cells] : [cells];
    });
    const all = [whole("final"), whole("line-a"), ...lines, whole("line-c"), whole("system")];
    style.gridTemplateAreas = all.map((line) => `"${line.join(" ")}"`).join(" ");
  }

  /** The cells of a row: its areas and the separators between them; the last area takes what is left. */
  #cells(row: Area[], at: number, width: number): string[] {
    return Array.from({ length: width }, (_, cell) => {
      const last = cell >= 2 * row.length - 2;
      if (cell % 2 && !last) return `line-${(cell + 1) / 2}`;
      return row.length ? `source-${at * this.#abreast + Math.min(Math.floor(cell / 2), row.length - 1)}` : ".";
    });
  }
}

function createArea(source: string, table: string): Area {
  const name = OWN_AREAS.includes(source) ? table : source;
  const viewer = document.createElement("perspective-viewer");
  viewer.dataset["table"] = table;
  const section = element("section", { "data-area": name, "aria-label": table }, element("div", { class: "body" }, viewer));
  return { name, table, section };
}
