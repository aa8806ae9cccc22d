/** Rates of counters. Pure: times are arguments. */

const RATE_WINDOW_MS = 10_000;

/** Speed of a counter over the last seconds. A counter that decreases has been reset. */
export class Rate {
  #samples: [number, number][] = [];

  add(at: number, count: number): void {
    const last = this.#samples.at(-1);
    if (last && count < last[1]) this.#samples = [];
    this.#samples.push([at, count]);
    while (this.#samples.length > 2 && this.#samples[1]![0] <= at - RATE_WINDOW_MS) this.#samples.shift();
  }

  get perSecond(): number | null {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (!first || !last || last[0] <= first[0]) return null;
    return (1000 * (last[1] - first[1])) / (last[0] - first[0]);
  }

  clear(): void {
    this.#samples = [];
  }
}
