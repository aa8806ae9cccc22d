/** The filters of one table: a field for the quick filter, and a chip for every filter that is active. */

import { button, element } from "../ui/dom.js";
import { describeFilter, quickText, withoutFilter, withQuickText } from "./filters.js";
import type { GridTable } from "./grid_table.js";
import type { Config } from "./perspective.js";

const TYPING_MS = 200; // a filter is applied when the user pauses

export class FilterBar {
  readonly input: HTMLInputElement;
  readonly chips = element("div", { class: "chips", role: "group", hidden: true });
  #table: GridTable;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #shown = "";

  constructor(table: GridTable) {
    this.#table = table;
    const label = `Show only rows of ${table.name} in which a column contains this`;
    this.input = element("input", { type: "search", class: "quick", placeholder: "Filter", "aria-label": label });
    this.input.title = `${label} (/)`;
    this.input.spellcheck = false;
    this.input.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#apply(), TYPING_MS);
    });
    this.chips.setAttribute("aria-label", `filters of ${table.name}`);
  }

  /** Show the filters of the viewer's configuration. */
  show(config: Config): void {
    const { filter = [] } = config;
    if (document.activeElement !== this.input) this.input.value = quickText(config);
    const texts = filter.map((each) => describeFilter(each, this.#table.types));
    this.chips.hidden = !texts.length;
    if (this.#shown === texts.join("\n")) return;
    this.#shown = texts.join("\n");
    const chips = texts.map((text, at) => {
      const remove = button("✕", { class: "flat", "aria-label": `Remove the filter ${text}` }, () => this.#remove(at));
      return element("span", { class: "chip", title: text }, element("span", {}, text), remove);
    });
    this.chips.replaceChildren(...chips);
    if (texts.length > 1) this.chips.append(button("Clear all", { class: "flat" }, () => void this.clear()));
  }

  /** Remove all filters. */
  async clear(): Promise<void> {
    this.input.value = "";
    const config = await this.#table.viewer.save();
    await this.#table.viewer.restore({ ...withQuickText(config, "", this.#table.types), filter: [] });
  }

  async #apply(): Promise<void> {
    if (!this.#table.ready) return;
    const config = await this.#table.viewer.save();
    const text = this.input.value.trim();
    if (text !== quickText(config)) await this.#table.viewer.restore(withQuickText(config, text, this.#table.types));
  }

  async #remove(at: number): Promise<void> {
    const config = withoutFilter(await this.#table.viewer.save(), at);
    this.input.value = quickText(config);
    await this.#table.viewer.restore(config);
  }
}
