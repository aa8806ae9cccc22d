/** The histogram of latencies: how many records took how long. */
import { svgElement } from "../ui/dom.js";
import { formatCount, plural } from "../ui/format.js";
import { areaOf, labelsBelow, valueAxis, valueTicks } from "./axes.js";
import { Chart, CHART_HEIGHT } from "./chart.js";
import { BOUNDS } from "./latency.js";
const LABELLED_BINS = 3; // every third bound has room for its label
export const latencyChart = (histogram) => new Chart("how many records took how long", (width) => plotHistogram(width, histogram));
function plotHistogram(width, { counts, total }) {
    const area = areaOf(width, CHART_HEIGHT);
    const ticks = valueTicks(Math.max(...counts), { whole: true });
    const step = (area.right - area.left) / counts.length;
    const height = (count) => (count ? Math.max(2, (count / ticks.at(-1)) * (area.bottom - area.top)) : 0);
    const bars = counts.map((count, i) => svgElement("rect", {
        class: "bar",
        x: (area.left + i * step + 1).toFixed(1),
        y: (area.bottom - height(count)).toFixed(1),
        width: (step - 2).toFixed(1),
        height: height(count).toFixed(1),
    }));
    const bounds = BOUNDS.map((bound, i) => ({ x: area.left + (i + 1) * step, label: formatBound(bound) }));
    const labelled = bounds.filter((_, i) => i % LABELLED_BINS === LABELLED_BINS - 1);
    const stops = counts.map((count, i) => ({
        key: i,
        x: area.left + (i + 0.5) * step,
        y: area.bottom - height(count),
        text: `${formatBin(i)} · ${plural(count, "record")} of ${formatCount(total)}`,
    }));
    return { area, shapes: [...valueAxis(area, ticks, "records"), ...labelsBelow(area, labelled), ...bars], stops };
}
const formatBound = (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);
function formatBin(bin) {
    const [low, high] = [BOUNDS[bin - 1], BOUNDS[bin]];
    if (high === undefined)
        return `more than ${formatBound(low ?? 0)}`;
    return low === undefined ? `up to ${formatBound(high)}` : `${formatBound(low)} to ${formatBound(high)}`;
}
