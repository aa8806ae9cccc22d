/** A chart of values over time, with a line where a generation went live. */

import { svgElement } from "../ui/dom.js";
import { formatClock } from "../ui/time_format.js";
import { areaOf, labelsBelow, timeTicks, valueAxis, valueTicks } from "./axes.js";
import type { Area } from "./axes.js";
import { Chart, CHART_HEIGHT } from "./chart.js";
import type { Plot } from "./chart.js";
import { unbroken } from "./time_series.js";
import type { Point, TimeRange, TimeSeries } from "./time_series.js";

/** Something that happened at a time, such as `generation 2 live`; `short` is its label where there is little room. */
export type Mark = { at: number; label: string; short: string };
/** What all time charts of the view have in common. `end` is the time at their right edge. */
export type TimeAxis = { range: TimeRange; end: number; marks: Mark[] };
export type Quantity = { label: string; unit: string; whole?: boolean; format: (value: number) => string };

const CHARACTER_WIDTH = 6.5; // of a mark's label
const UNIT_WIDTH = 80; // of the unit, which stands on the same line

export function timeChart(quantity: Quantity, series: TimeSeries, axis: () => TimeAxis): Chart {
  return new Chart(quantity.label, (width) => plotOverTime(width, series, quantity, axis()));
}

function plotOverTime(width: number, series: TimeSeries, quantity: Quantity, { range, end, marks }: TimeAxis): Plot {
  const area = areaOf(width, CHART_HEIGHT);
  const start = end - range.ms;
  const points = series.points(range).filter(({ at }) => at >= start && at <= end);
  const ticks = valueTicks(Math.max(0, ...points.map(({ max }) => max)), quantity);
  const x = (at: number) => area.left + ((at - start) / range.ms) * (area.right - area.left);
  const y = (value: number) => area.bottom - (value / ticks.at(-1)!) * (area.bottom - area.top);
  const times = timeTicks(start, end, area.right - area.left).map(({ at, label }) => ({ x: x(at), label }));
  const shown = marks.filter(({ at }) => at >= start && at <= end).map((mark) => ({ ...mark, x: x(mark.at) }));
  const lines = unbroken(points, range).flatMap((part) => {
    const along = (value: (point: Point) => number) =>
      part.map((point) => `${x(point.at).toFixed(1)} ${y(value(point)).toFixed(1)}`);
    const band = [...along(({ max }) => max), ...along(({ min }) => min).reverse()];
    return [
      svgElement("path", { class: "band", d: `M${band.join("L")}Z` }),
      svgElement("path", { class: "line", d: `M${along(({ mean }) => mean).join("L")}` }),
    ];
  });
  const stops = points.map((point, i) => {
    const before = points[i - 1]?.at ?? start;
    const events = shown.filter(({ at }) => at > before && at <= point.at).map(({ label }) => label);
    const text = [readout(point, quantity), ...events].join(" · ");
    return { key: point.at, x: x(point.at), y: y(point.mean), text };
  });
  const axes = [...valueAxis(area, ticks, quantity.unit), ...labelsBelow(area, times)];
  return { area, shapes: [...axes, ...lines, ...markShapes(shown, area)], stops };
}

/** `12:00:00 · 14.2 records/s`, and the extremes where a point stands for several values. */
function readout({ at, mean, min, max }: Point, { format }: Quantity): string {
  const extremes = min === max ? "" : `, ${format(min)} to ${format(max)}`;
  return `${formatClock(at)} · ${format(mean)}${extremes}`;
}

/** Lines with a label each, from the newest on; one that would cover another label or line is shortened or left out. */
function markShapes(marks: (Mark & { x: number })[], { right, top, bottom }: Area): SVGElement[] {
  const shapes = [];
  let free = right + CHARACTER_WIDTH;
  for (const [i, { x, label, short }] of [...marks.entries()].reverse()) {
    shapes.push(svgElement("line", { class: "mark", x1: x, x2: x, y1: top - 6, y2: bottom }));
    const older = marks[i - 1]?.x ?? 0;
    for (const text of [label, short]) {
      const half = (text.length * CHARACTER_WIDTH) / 2;
      const center = Math.max(UNIT_WIDTH + half, Math.min(right - half, x));
      if (center + half > free || (text === label && center - half < older)) continue;
      free = center - half - CHARACTER_WIDTH;
      shapes.push(svgElement("text", { class: "mark-label", x: center, y: 12, "text-anchor": "middle" }, text));
      break;
    }
  }
  return shapes;
}
