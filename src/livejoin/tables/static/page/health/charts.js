/** Two SVG charts: a sparkline and a histogram. */
import { svgElement } from "../ui/dom.js";
import { formatCount } from "../ui/format.js";
import { BOUNDS } from "./latency.js";
import { TREND_LENGTH } from "./rates.js";
/** The newest value is on the right; null is a gap. */
export function sparkline(values, label) {
    const [width, height] = [240, 40];
    const max = Math.max(1, ...values.map((value) => value ?? 0));
    const step = width / (TREND_LENGTH - 1);
    const first = TREND_LENGTH - values.length;
    let path = "";
    let drawing = false;
    for (const [i, value] of values.entries()) {
        if (value === null) {
            drawing = false;
            continue;
        }
        const x = ((first + i) * step).toFixed(1);
        const y = (height - 2 - (value / max) * (height - 4)).toFixed(1);
        path += `${drawing ? "L" : "M"}${x} ${y}`;
        drawing = true;
    }
    const attributes = { class: "sparkline", role: "img", "aria-label": label, preserveAspectRatio: "none" };
    return svgElement("svg", { viewBox: `0 0 ${width} ${height}`, ...attributes }, svgElement("line", { x1: 0, x2: width, y1: height - 1, y2: height - 1, class: "axis" }), svgElement("path", { d: path || "M0 0" }));
}
/** One bar per bin, with the bound of every third bin below. */
export function histogramChart({ counts }, label) {
    const [width, height, labelHeight] = [480, 130, 16];
    const max = Math.max(1, ...counts);
    const step = width / counts.length;
    const shapes = [svgElement("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" })];
    for (const [i, count] of counts.entries()) {
        const barHeight = count ? Math.max(2, (count / max) * (height - 8)) : 0;
        const bar = svgElement("rect", {
            x: (i * step + 1).toFixed(1),
            y: (height - barHeight).toFixed(1),
            width: (step - 2).toFixed(1),
            height: barHeight.toFixed(1),
        });
        const bound = BOUNDS[i];
        const range = bound === undefined ? "longer" : `up to ${formatBound(bound)}`;
        bar.append(svgElement("title", {}, `${range}: ${formatCount(count)}`));
        shapes.push(bar);
        if (i % 3 === 2 && bound !== undefined) {
            const position = { x: ((i + 1) * step).toFixed(1), y: height + labelHeight - 3, "text-anchor": "middle" };
            shapes.push(svgElement("text", position, formatBound(bound)));
        }
    }
    const viewBox = `0 0 ${width} ${height + labelHeight}`;
    return svgElement("svg", { viewBox, class: "bars", role: "img", "aria-label": label }, ...shapes);
}
const formatBound = (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);
