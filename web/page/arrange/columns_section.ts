/** The columns of a grid, or the axes of a chart, in their order; of groups also how their cells become one. */

import { element } from "../ui/dom.js";
import { aggregatesOf, defaultAggregate } from "./aggregates.js";
import { isInternal, listedColumns, moved, shownColumns } from "./arrangement.js";
import { withAggregate, withColumn, withoutColumn, withRole } from "./arrangement.js";
import { kindOf } from "./chart_kinds.js";
import type { ChartKind } from "./chart_kinds.js";
import { choice, columnChoice, moveButtons, movedKeys, redraw, sectionRoot } from "./controls.js";
import type { Apply, Arranged, Section } from "./controls.js";

export class ColumnsSection implements Section {
  readonly root = sectionRoot("columns");
  readonly settings = ["plugin", "columns", "group_by", "aggregates"] as const;
  #apply: Apply;
  #focusNext: string[] = [];

  constructor(apply: Apply) {
    this.#apply = apply;
  }

  show(arranged: Arranged): void {
    const kind = kindOf(arranged.config.plugin);
    const keys = this.#focusNext;
    this.#focusNext = [];
    if (kind.several) redraw(this.root, kind.values[0]!, [this.#list(arranged)], keys);
    else redraw(this.root, "Axes", this.#roles(arranged, kind), keys);
  }

  /** Every column, with a tick if it is shown. Shown ones can be moved. */
  #list(arranged: Arranged): HTMLElement {
    const { config, types } = arranged;
    const shown = shownColumns(config);
    const rows = listedColumns(config, types).map((name) => {
      const at = shown.indexOf(name);
      const tick = element("input", { type: "checkbox", checked: at >= 0, "data-key": `shown-${name}` });
      tick.disabled = at >= 0 && shown.length === 1;
      tick.addEventListener("change", () => this.#apply((tick.checked ? withColumn : withoutColumn)(config, name)));
      const text = element("span", isInternal(name) ? { class: "muted" } : {}, name);
      const row = element("li", {}, element("label", { title: name }, tick, text));
      if (at < 0) return row;
      const move = (to: number) => {
        this.#focusNext = movedKeys("column", at, to);
        this.#apply({ columns: moved(shown, at, to) });
      };
      row.append(...this.#aggregate(arranged, name), ...moveButtons("column", name, at, shown.length, move));
      return row;
    });
    return element("ul", {}, ...rows);
  }

  /** One choice for each role of a chart, such as its X axis. */
  #roles(arranged: Arranged, kind: ChartKind): HTMLElement[] {
    const { config, types } = arranged;
    return kind.values.map((role, at) => {
      const name = config.columns?.[at] ?? "";
      const choose = (chosen: string) => this.#apply(withRole(config, at, chosen || null, kind.values.length));
      const column = columnChoice(`role-${at}`, role, types, name, choose, at === 0 ? undefined : "–");
      const line = element("div", { class: "line" }, element("span", { class: "role" }, role), column);
      if (name) line.append(...this.#aggregate(arranged, name));
      return line;
    });
  }

  #aggregate({ config, types }: Arranged, name: string): HTMLElement[] {
    if (!config.group_by?.length) return [];
    const type = types[name] ?? "";
    const chosen = String(config.aggregates?.[name] ?? defaultAggregate(type));
    const label = `How ${name} is summed up in a group`;
    const onChange = (aggregate: string) => this.#apply(withAggregate(config, name, aggregate));
    return [choice(`aggregate-${name}`, label, aggregatesOf(type), chosen, onChange)];
  }
}
