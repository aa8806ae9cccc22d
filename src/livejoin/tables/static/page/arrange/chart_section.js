/** Grid or chart, and which kind of chart. */
import { kindLabel, kindOf, KINDS } from "./chart_kinds.js";
import { choice, redraw, sectionRoot } from "./controls.js";
export class ChartSection {
    root = sectionRoot("chart");
    settings = ["plugin"];
    #onChoose;
    constructor(onChoose) {
        this.#onChoose = onChoose;
    }
    show({ config }) {
        const { plugin } = kindOf(config.plugin);
        const options = KINDS.map((kind) => [kind.plugin, kindLabel(kind.plugin)]);
        redraw(this.root, "Show as", [choice("plugin", "grid or chart", options, plugin, this.#onChoose)]);
    }
}
