/** Two small drawings: a line of the last values, and bars of a histogram. */

import { draw } from "../ui/dom.js";
import { BOUNDS } from "./statistics.js";
import type { Histogram } from "./statistics.js";

const WIDE = 240;
const HIGH = 40;

/** The newest value is at the right; values that are not known are gaps. */
export function sparkline(values: readonly (number | null)[], slots: number, label: string): SVGSVGElement {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const step = WIDE / (slots - 1);
  const first = slots - values.length;
  let path = "";
  let open = false;
  for (const [i, value] of values.entries()) {
    if (value === null) {
      open = false;
      continue;
    }
    const x = ((first + i) * step).toFixed(1);
    const y = (HIGH - 2 - (value / most) * (HIGH - 4)).toFixed(1);
    path += `${open ? "L" : "M"}${x} ${y}`;
    open = true;
  }
  return draw(
    "svg",
    {
      viewBox: `0 0 ${WIDE} ${HIGH}`,
      class: "sparkline",
      role: "img",
      "aria-label": label,
      preserveAspectRatio: "none",
    },
    draw("line", { x1: 0, x2: WIDE, y1: HIGH - 1, y2: HIGH - 1, class: "axis" }),
    draw("path", { d: path || "M0 0" }),
  );
}

/** Bars over bins that grow, with the bound of every third bin below. */
export function bars(histogram: Histogram, label: string): SVGSVGElement {
  const [wide, high, foot] = [480, 130, 16];
  const { counts } = histogram;
  const most = Math.max(1, ...counts);
  const step = wide / counts.length;
  const drawn: SVGElement[] = [draw("line", { x1: 0, x2: wide, y1: high, y2: high, class: "axis" })];
  for (const [i, count] of counts.entries()) {
    const tall = count ? Math.max(2, (count / most) * (high - 8)) : 0;
    const bar = draw("rect", {
      x: (i * step + 1).toFixed(1),
      y: (high - tall).toFixed(1),
      width: (step - 2).toFixed(1),
      height: tall.toFixed(1),
    });
    const upTo = BOUNDS[i] === undefined ? "longer" : `up to ${bound(BOUNDS[i])}`;
    bar.append(draw("title", {}, `${upTo}: ${count.toLocaleString("en")}`));
    drawn.push(bar);
    if (i % 3 === 2 && BOUNDS[i] !== undefined) {
      drawn.push(
        draw("text", { x: ((i + 1) * step).toFixed(1), y: high + foot - 3, "text-anchor": "middle" }, bound(BOUNDS[i])),
      );
    }
  }
  return draw(
    "svg",
    { viewBox: `0 0 ${wide} ${high + foot}`, class: "bars", role: "img", "aria-label": label },
    ...drawn,
  );
}

const bound = (ms: number) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);
