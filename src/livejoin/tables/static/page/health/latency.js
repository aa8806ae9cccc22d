/** Measures latency: from a record's Kafka timestamp until its row is in this page, by livejoin's clock. */
import { readArrow } from "../../protocol/arrow.js";
import { ClockOffset } from "./statistics.js";
const SOURCE_TABLES = ["users_ui", "accounts_ui"]; // each record is one row of one of them
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
            if (kind !== "upsert" || !SOURCE_TABLES.includes(table) || payload.byteLength > MAX_BYTES)
                continue;
            const { fields, columns } = readArrow(payload);
            const times = columns[fields.findIndex(({ name }) => name === "_ts")] ?? [];
            for (const time of times)
                if (typeof time === "number")
                    this.#histogram.add(now - time);
        }
    }
}
