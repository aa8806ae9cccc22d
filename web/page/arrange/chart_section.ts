/** Grid or chart, and which kind of chart. */

import { kindLabel, kindOf, KINDS } from "./chart_kinds.js";
import { choice, redraw, sectionRoot } from "./controls.js";
import type { Arranged, Section } from "./controls.js";

export class ChartSection implements Section {
  readonly root = sectionRoot("chart");
  readonly settings = ["plugin"] as const;
  #onChoose: (plugin: string) => void;

  constructor(onChoose: (plugin: string) => void) {
    this.#onChoose = onChoose;
  }

  show({ config }: Arranged): void {
    const { plugin } = kindOf(config.plugin);
    const options = KINDS.map((kind): [string, string] => [kind.plugin, kindLabel(kind.plugin)]);
    redraw(this.root, "Show as", [choice("plugin", "grid or chart", options, plugin, this.#onChoose)]);
  }
}
