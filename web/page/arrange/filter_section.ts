/** The filters of a table. A new one has no effect until it has a value, and one that loses its value is removed. */

import { element } from "../ui/dom.js";
import { preferences } from "../ui/preferences.js";
import { describeFilter, withoutFilter } from "../grid/filters.js";
import type { Filter } from "../grid/perspective.js";
import { unusedColumn, without } from "./arrangement.js";
import { addButton, choice, columnChoice, redraw, sectionRoot, small } from "./controls.js";
import type { Apply, Arranged, Section } from "./controls.js";
import { draftOf, needsValue, operatorsOf, readFilter, takesList, withColumn } from "./operators.js";
import type { FilterDraft, Zone } from "./operators.js";

const TYPING_MS = 250; // a filter is applied when the user pauses
const TRUTH: [string, string][] = [
  ["", "–"],
  ["true", "true"],
  ["false", "false"],
];
const INPUTS: Record<string, Record<string, string>> = {
  integer: { type: "number", step: "1" },
  float: { type: "number", step: "any" },
  datetime: { type: "datetime-local", step: "0.001" },
  date: { type: "date" },
};

const zone = (): Zone => (preferences.utc ? "UTC" : "local");

export class FilterSection implements Section {
  readonly root = sectionRoot("filter");
  readonly settings = ["filter", "expressions"] as const;
  #apply: Apply;
  #arranged: Arranged = { table: "", config: {}, types: {} };
  #drafts: FilterDraft[] = [];
  #others = ""; // filters on expressions, such as a quick filter, and columns, as they were drawn
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(apply: Apply) {
    this.#apply = apply;
  }

  show(arranged: Arranged): void {
    const { config, types } = arranged;
    const { filter = [] } = config;
    this.#arranged = arranged;
    const known = filter.filter(([column]) => column in types);
    const others = JSON.stringify([filter.filter(([column]) => !(column in types)), Object.keys(types)]);
    const own = JSON.stringify(known) === JSON.stringify(this.#filters());
    if (own && others === this.#others) return; // typing goes on
    this.#others = others;
    if (!own) {
      const incomplete = this.#drafts.filter((draft) => draft.column in types && this.#read(draft) === null);
      this.#drafts = [...known.map((each) => draftOf(each, types[each[0]] ?? "", zone())), ...incomplete];
    }
    this.#draw();
  }

  /** Another table, or another time zone. */
  forget(): void {
    this.#flush();
    this.#drafts = [];
    this.#others = "";
  }

  #read(draft: FilterDraft): Filter | null {
    return readFilter(draft, this.#arranged.types[draft.column] ?? "", zone());
  }

  #filters(): Filter[] {
    return this.#drafts.map((draft) => this.#read(draft)).filter((filter) => filter !== null);
  }

  /** Apply now what was typed. */
  #flush(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#applyFilters();
  }

  #applyFilters(): void {
    const { config, types } = this.#arranged;
    const { filter = [] } = config;
    const others = filter.filter(([column]) => !(column in types));
    const changed = [...others, ...this.#filters()];
    if (JSON.stringify(changed) !== JSON.stringify(filter)) this.#apply({ filter: changed });
  }

  #change(drafts: FilterDraft[], focusNext: string[] = []): void {
    this.#drafts = drafts;
    this.#draw(focusNext);
    this.#applyFilters();
  }

  #draw(focusNext: string[] = []): void {
    const { types } = this.#arranged;
    const add = addButton("filter-add", "Add a filter", "Add a filter", () => {
      const column = unusedColumn(types, []);
      if (column === undefined) return;
      const operator = operatorsOf(types[column] ?? "")[0]![0];
      this.#change([...this.#drafts, { column, operator, text: "" }], [`filter-${this.#drafts.length}`]);
    });
    const rows = [...this.#drafts.map((draft, at) => this.#row(draft, at)), ...this.#otherRows()];
    redraw(this.root, "Filter", [...(rows.length ? [element("ul", {}, ...rows)] : []), add], focusNext);
  }

  #row(draft: FilterDraft, at: number): HTMLElement {
    const { types } = this.#arranged;
    const type = types[draft.column] ?? "";
    const replace = (changed: FilterDraft) => this.#change(this.#drafts.with(at, changed));
    const row = element(
      "li",
      { class: "filter" },
      columnChoice(`filter-${at}`, `Filter ${at + 1}: column`, types, draft.column, (column) =>
        replace(withColumn(this.#drafts[at]!, column, type, types[column] ?? "")),
      ),
      choice(`operator-${at}`, `Filter ${at + 1}: comparison`, operatorsOf(type), draft.operator, (operator) =>
        replace({ ...this.#drafts[at]!, operator }),
      ),
      small(`filter-remove-${at}`, "remove", `Remove the filter on ${draft.column}`, () =>
        this.#change(without(this.#drafts, at), ["filter-add"]),
      ),
    );
    if (needsValue(draft.operator)) row.append(this.#value(draft, at, type));
    return row;
  }

  /** Filters on expressions can only be removed here. */
  #otherRows(): HTMLElement[] {
    const { config, types } = this.#arranged;
    return (config.filter ?? []).flatMap((filter, at) => {
      if (filter[0] in types) return [];
      const text = describeFilter(filter, types);
      const remove = () => this.#apply(withoutFilter(this.#arranged.config, at));
      const button = small(`other-${at}`, "remove", `Remove the filter ${text}`, remove);
      return element("li", {}, element("span", { class: "other" }, text), button);
    });
  }

  #value(draft: FilterDraft, at: number, type: string): HTMLElement {
    const attributes = { "data-key": `value-${at}`, "aria-label": `Filter ${at + 1}: value`, class: "value" };
    if (type === "boolean") {
      const select = choice(`value-${at}`, `Filter ${at + 1}: value`, TRUTH, draft.text, (text) =>
        this.#change(this.#drafts.with(at, { ...this.#drafts[at]!, text })),
      );
      select.classList.add("value");
      return select;
    }
    const list = takesList(draft.operator);
    const placeholder = list ? "one value per line" : "value; all rows are shown until there is one";
    const input = list
      ? element("textarea", { ...attributes, placeholder, rows: 3 })
      : element("input", { ...attributes, placeholder, ...INPUTS[type] });
    input.spellcheck = false;
    input.value = draft.text;
    input.addEventListener("input", () => {
      this.#drafts = this.#drafts.with(at, { ...this.#drafts[at]!, text: input.value });
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#flush(), TYPING_MS);
    });
    input.addEventListener("change", () => this.#flush());
    return input;
  }
}
