/** Measures latency: from a record's Kafka timestamp until its row is in this page, by livejoin's clock. */
import { readArrow } from "../../protocol/arrow.js";
const OTHER_TABLES = ["final_ui", "rejects_ui"];
const isSourceTable = (name) => name.endsWith("_ui") && !OTHER_TABLES.includes(name);
const MAX_SAMPLES = 120; // frames that the clock's offset is estimated from
const MAX_NEW = 10_000; // between two heartbeats
const MAX_BYTES = 64 << 10; // larger parts are backlog, and decoding them again would cost time
export class LatencyMeter {
    #offset = new ClockOffset();
    #histogram;
    constructor(histogram) {
        this.#histogram = histogram;
    }
    frameReceived({ header }) {
        this.#offset.add(header.at, Date.now());
    }
    frameApplied({ header, parts }) {
        if (header.type !== "data" || header.resumed)
            return;
        const now = Date.now() + this.#offset.ms;
        for (const { table, kind, payload } of parts) {
            if (kind !== "upsert" || !isSourceTable(table) || payload.byteLength > MAX_BYTES)
                continue;
            const { fields, columns } = readArrow(payload);
            const times = columns[fields.findIndex(({ name }) => name === "_ts")] ?? [];
            for (const time of times)
                if (typeof time === "number")
                    this.#histogram.add(now - time);
        }
    }
}
/** Upper bounds of the bins in ms, growing by about 1.5; the last bin holds everything above. */
export const BOUNDS = [
    1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000,
];
/** Latencies, counted by bin. */
export class Histogram {
    counts = new Array(BOUNDS.length + 1).fill(0);
    total = 0;
    negative = 0; // the producer's clock is ahead of livejoin's
    #recent = []; // for quantiles
    #new = []; // since they were taken
    add(ms) {
        if (ms < 0)
            this.negative += 1;
        const bin = BOUNDS.findIndex((bound) => ms <= bound);
        this.counts[bin < 0 ? BOUNDS.length : bin] += 1;
        this.total += 1;
        this.#recent.push(Math.max(0, ms));
        if (this.#recent.length > 10_000)
            this.#recent.splice(0, 5000);
        if (this.#new.length < MAX_NEW)
            this.#new.push(Math.max(0, ms));
    }
    quantile(share) {
        return quantile(this.#recent, share);
    }
    /** The latencies since the last call. */
    takeNew() {
        return this.#new.splice(0);
    }
    clear() {
        this.counts.fill(0);
        this.#recent = [];
        this.total = this.negative = 0;
    }
}
/** Null of none. */
export function quantile(values, share) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}
/**
 * How far livejoin's clock is ahead of the browser's, in ms. Transit time makes each sample too small, so the largest
 * of the recent ones is the best estimate.
 */
export class ClockOffset {
    #samples = [];
    add(serverTime, ownTime) {
        this.#samples.push(serverTime - ownTime);
        if (this.#samples.length > MAX_SAMPLES)
            this.#samples.shift();
    }
    get ms() {
        return this.#samples.length ? Math.max(...this.#samples) : 0;
    }
}
