/** Axes of charts: round values and clock times, with grid lines and labels. */
import { svgElement } from "../ui/dom.js";
import { formatClock, formatHour } from "../ui/time_format.js";
const VALUE_STEPS = 3;
const TICK_WIDTH = 90; // enough for 12:00:00Z and a gap
const TIME_STEPS_MS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600].map((s) => 1000 * s);
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
export const areaOf = (width, height) => ({
    left: 44,
    right: Math.max(60, width - 12),
    top: 22, // above it stand the unit and the labels of vertical lines
    bottom: height - 18,
});
/** From 0 to a round value that is at least `max`. */
export function valueTicks(max, { whole = false } = {}) {
    const least = (max || 1) / VALUE_STEPS;
    const power = 10 ** Math.floor(Math.log10(least));
    const round = power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
    const step = whole ? Math.max(1, round) : round;
    return Array.from({ length: Math.ceil(max / step || 1) + 1 }, (_, i) => i * step);
}
/** Round clock times, as many as fit into a width. */
export function timeTicks(from, to, width) {
    const most = Math.max(1, Math.floor(width / TICK_WIDTH));
    const step = TIME_STEPS_MS.find((ms) => (to - from) / ms <= most) ?? to - from;
    const format = step < 60_000 ? formatClock : formatHour;
    const ticks = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step)
        ticks.push({ at, label: format(at) });
    return ticks;
}
/** Grid lines and labels of the values, with their unit on top. */
export function valueAxis({ left, right, bottom, top }, ticks, unit) {
    const max = ticks.at(-1) ?? 1;
    const shapes = ticks.flatMap((value) => {
        const y = bottom - (value / max) * (bottom - top);
        return [
            svgElement("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
            svgElement("text", { class: "value-tick", x: left - 6, y: y + 4, "text-anchor": "end" }, COMPACT.format(value)),
        ];
    });
    return [...shapes, svgElement("text", { class: "unit", x: 0, y: 10 }, unit)];
}
/** Labels below the chart, each at its `x`; those that would stick out are aligned to the edge. */
export function labelsBelow({ left, right, bottom }, ticks) {
    return ticks.flatMap(({ x, label }) => {
        const anchor = x > right - TICK_WIDTH / 3 ? "end" : x < left + TICK_WIDTH / 3 ? "start" : "middle";
        return [
            svgElement("line", { class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
            svgElement("text", { class: "tick-label", x, y: bottom + 15, "text-anchor": anchor }, label),
        ];
    });
}
