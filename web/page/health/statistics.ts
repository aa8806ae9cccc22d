/** Rates, trends, a histogram and the offset between two clocks. Pure: times are arguments. */

const RATE_WINDOW_MS = 10_000;
export const TREND_LENGTH = 120; // heartbeats: two minutes

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

/** The last values of a series. */
export class Trend {
  readonly values: (number | null)[] = [];

  add(value: number | null): void {
    this.values.push(value);
    if (this.values.length > TREND_LENGTH) this.values.shift();
  }
}

/** Upper bounds of the bins in ms, growing by about 1.5; the last bin holds everything above. */
export const BOUNDS = [
  1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000,
];

/** Latencies, counted by bin. */
export class Histogram {
  readonly counts: number[] = new Array(BOUNDS.length + 1).fill(0);
  total = 0;
  negative = 0; // the producer's clock is ahead of livejoin's
  #recent: number[] = []; // for quantiles

  add(ms: number): void {
    if (ms < 0) this.negative += 1;
    const bin = BOUNDS.findIndex((bound) => ms <= bound);
    this.counts[bin < 0 ? BOUNDS.length : bin]! += 1;
    this.total += 1;
    this.#recent.push(Math.max(0, ms));
    if (this.#recent.length > 10_000) this.#recent.splice(0, 5000);
  }

  quantile(share: number): number | null {
    if (!this.#recent.length) return null;
    const sorted = [...this.#recent].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  }

  clear(): void {
    this.counts.fill(0);
    this.#recent = [];
    this.total = this.negative = 0;
  }
}

/**
 * How far livejoin's clock is ahead of the browser's, in ms. Transit time makes each sample too small, so the largest
 * of the recent ones is the best estimate.
 */
export class ClockOffset {
  #samples: number[] = [];

  add(serverTime: number, ownTime: number): void {
    this.#samples.push(serverTime - ownTime);
    if (this.#samples.length > TREND_LENGTH) this.#samples.shift();
  }

  get ms(): number {
    return this.#samples.length ? Math.max(...this.#samples) : 0;
  }
}
