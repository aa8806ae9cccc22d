/**
 * A chart with a readout: the pointer or the arrow keys select one of its values. What is drawn is the caller's; the
 * selection stays when it is drawn anew.
 */

import { element, svgElement } from "../ui/dom.js";
import type { Area } from "./axes.js";

/** A value that can be selected. `key` identifies it from one drawing to the next; keys ascend. */
export type Stop = { key: number; x: number; y: number; text: string };
export type Plot = { area: Area; shapes: SVGElement[]; stops: Stop[] };

export const CHART_HEIGHT = 128;
const MOVES: Record<string, number> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageDown: -10,
  PageUp: 10,
  Home: -Infinity,
  End: Infinity,
};
const PADDING = 6; // of the readout

export class Chart {
  readonly element: HTMLElement;
  #draw: (width: number) => Plot;
  #svg = svgElement("svg", { "aria-hidden": true });
  #plot: Plot | null = null;
  #selected: { by: "x" | "key"; value: number } | null = null; // by the pointer or the keyboard

  constructor(label: string, draw: (width: number) => Plot) {
    this.#draw = draw;
    // for assistive technology a slider over the values: its text is the readout
    const value = { "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "no value selected" };
    const attributes = { class: "plot", role: "slider", tabindex: 0, "aria-label": label, ...value };
    this.element = element("div", attributes, this.#svg);
    const listen = this.element.addEventListener.bind(this.element);
    listen("pointermove", (event) => this.#select("x", event.clientX - this.element.getBoundingClientRect().left));
    listen("pointerleave", () => this.#selected?.by === "x" && this.#clear());
    listen("focus", () => this.element.matches(":focus-visible") && this.#move(Infinity));
    listen("blur", () => this.#clear());
    listen("keydown", (event) => this.#keyPressed(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Draw anew, if visible. */
  draw(): void {
    const width = this.element.clientWidth;
    if (!width) return;
    this.#plot = this.#draw(width);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
    this.#svg.replaceChildren(...this.#plot.shapes);
    this.#drawReadout();
  }

  #keyPressed(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.#selected) this.#clear();
    const move = MOVES[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); // the view would scroll
    this.#move(move);
  }

  /** Select the value that is so many steps later. */
  #move(steps: number): void {
    const stops = this.#plot?.stops ?? [];
    const from = this.#selectedStop ? stops.indexOf(this.#selectedStop) : stops.length - 1;
    const to = Math.min(stops.length - 1, Math.max(0, from + steps));
    const stop = stops[to];
    if (!stop) return;
    this.element.setAttribute("aria-valuemax", String(stops.length - 1));
    this.element.setAttribute("aria-valuenow", String(to));
    this.element.setAttribute("aria-valuetext", stop.text);
    this.#select("key", stop.key);
  }

  #select(by: "x" | "key", value: number): void {
    this.#selected = { by, value };
    this.#drawReadout();
  }

  #clear(): void {
    this.#selected = null;
    this.#drawReadout();
  }

  get #selectedStop(): Stop | undefined {
    const [selected, stops] = [this.#selected, this.#plot?.stops];
    if (!selected || !stops?.length) return undefined;
    const distance = (stop: Stop) => Math.abs(stop[selected.by] - selected.value);
    return stops.reduce((best, stop) => (distance(stop) < distance(best) ? stop : best));
  }

  #drawReadout(): void {
    this.#svg.querySelector(".readout")?.remove();
    const stop = this.#selectedStop;
    if (!this.#plot || !stop) return;
    const { left, right, top, bottom } = this.#plot.area;
    const { x, y } = stop;
    const text = svgElement("text", { y: top + 14 }, stop.text);
    const box = svgElement("rect", { y: top, height: 20, rx: 4 });
    this.#svg.append(
      svgElement(
        "g",
        { class: "readout" },
        svgElement("line", { x1: x, x2: x, y1: top, y2: bottom }),
        svgElement("circle", { cx: x, cy: y, r: 3.5 }),
        box,
        text,
      ),
    );
    const width = text.getComputedTextLength() + 2 * PADDING;
    const wanted = x > (left + right) / 2 ? x - 8 - width : x + 8; // beside the line, never over the newest values
    const start = Math.max(0, Math.min(wanted, right - width));
    box.setAttribute("x", String(start));
    box.setAttribute("width", String(width));
    text.setAttribute("x", String(start + PADDING));
  }
}
