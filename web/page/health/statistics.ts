/** Numbers over time: rates, trends, a histogram, and how far two clocks are apart. Pure: everything is told. */

const WINDOW_MS = 10_000;
const KEPT = 120; // heartbeats, two minutes of them

/** A counter's speed over the last seconds. A counter that goes back has started anew. */
export class Rate {
  #seen: [number, number][] = [];

  add(at: number, count: number): void {
    const last = this.#seen.at(-1);
    if (last && count < last[1]) this.#seen = [];
    this.#seen.push([at, count]);
    while (this.#seen.length > 2 && this.#seen[1]![0] <= at - WINDOW_MS) this.#seen.shift();
  }

  get perSecond(): number | null {
    const [first, last] = [this.#seen[0], this.#seen.at(-1)];
    if (!first || !last || last[0] <= first[0]) return null;
    return (1000 * (last[1] - first[1])) / (last[0] - first[0]);
  }

  clear(): void {
    this.#seen = [];
  }
}

/** The last values of something that is told again and again. */
export class Trend {
  readonly values: (number | null)[] = [];

  add(value: number | null): void {
    this.values.push(value);
    if (this.values.length > KEPT) this.values.shift();
  }
}

/** Upper bounds in ms, each about one and a half times the one before; what is longer is in the last bin. */
export const BOUNDS = [
  1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000,
];

/** Latencies, counted by bin. */
export class Histogram {
  readonly counts: number[] = new Array(BOUNDS.length + 1).fill(0);
  #sorted: number[] = []; // the newest ones, for quantiles
  total = 0;
  ahead = 0; // below nothing: the producer's clock is ahead of livejoin's

  add(ms: number): void {
    if (ms < 0) this.ahead += 1;
    const bin = BOUNDS.findIndex((bound) => ms <= bound);
    this.counts[bin < 0 ? BOUNDS.length : bin]! += 1;
    this.total += 1;
    this.#sorted.push(Math.max(0, ms));
    if (this.#sorted.length > 10_000) this.#sorted.splice(0, 5000);
  }

  quantile(share: number): number | null {
    if (!this.#sorted.length) return null;
    const sorted = [...this.#sorted].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
  }

  clear(): void {
    this.counts.fill(0);
    this.#sorted = [];
    this.total = this.ahead = 0;
  }
}

/**
 * How much livejoin's clock is ahead of ours, in ms. A frame that was under way for no time tells it exactly, one
 * that took longer tells less: so the largest of the last ones is the best.
 */
export class Skew {
  #told: number[] = [];

  add(theirs: number, ours: number): void {
    this.#told.push(theirs - ours);
    if (this.#told.length > KEPT) this.#told.shift();
  }

  get ms(): number {
    return this.#told.length ? Math.max(...this.#told) : 0;
  }
}
