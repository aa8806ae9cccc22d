/** Time from Kafka to this browser: quantiles, how it changed, how it is distributed. */
import { byId, descriptionList, setText } from "../ui/dom.js";
import { formatCount, plural } from "../ui/format.js";
import { formatDuration, formatTime } from "../ui/time_format.js";
import { Histogram, quantile } from "./latency.js";
import { latencyChart } from "./latency_chart.js";
import { timeChart } from "./time_chart.js";
import { TimeSeries } from "./time_series.js";
export class LatencyCard {
    histogram = new Histogram();
    #medians = new TimeSeries();
    #charts;
    #since = Date.now();
    constructor(axis) {
        const median = { label: "Median time to this browser", unit: "ms", format: formatDuration };
        this.#charts = [timeChart(median, this.#medians, axis), latencyChart(this.histogram)];
        byId("latency-trend").append(this.#charts[0].element);
        byId("latency-chart").append(this.#charts[1].element);
        byId("latency-reset").addEventListener("click", () => {
            this.histogram.clear();
            this.#since = Date.now();
            this.draw();
        });
    }
    heartbeat(at) {
        this.#medians.add(at, quantile(this.histogram.takeNew(), 0.5));
    }
    draw() {
        const { histogram } = this;
        const within = (share) => {
            const ms = histogram.quantile(share);
            return ms === null ? "–" : formatDuration(ms);
        };
        byId("latency-facts").replaceChildren(descriptionList([
            ["Half within (p50)", within(0.5)],
            ["95 % within (p95)", within(0.95)],
            ["99 % within (p99)", within(0.99)],
            ["Records", formatCount(histogram.total)],
        ]));
        for (const chart of this.#charts)
            chart.draw();
        const ahead = `${plural(histogram.negative, "record")} had a timestamp in the future: a producer's clock is ahead.`;
        setText(byId("latency-note"), "From a record's timestamp in Kafka until its row is in this page, by livejoin's clock. " +
            `Records since ${formatTime(this.#since)}. ${histogram.negative ? ahead : ""}`);
    }
}
