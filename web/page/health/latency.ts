/** From Kafka to this page: the Kafka time of rows that have just come, against livejoin's clock as it is here. */

import { readArrow } from "../../protocol/arrow.js";
import { Skew } from "./statistics.js";
import type { Histogram } from "./statistics.js";
import type { Frame } from "../../protocol/frame.js";

const SOURCES = ["users_ui", "accounts_ui"]; // each record is a row in one of them
const LARGEST = 64 << 10; // a run that long is history that is caught up with, and reading it again would cost time

export class Latency {
  #skew = new Skew();
  #into: Histogram;

  constructor(into: Histogram) {
    this.#into = into;
  }

  /** A frame has just arrived. */
  arrived({ header }: Frame): void {
    this.#skew.add(header.at, Date.now());
  }

  /** A frame's rows are in the page. */
  applied({ header, payloads }: Frame): void {
    if (header.type !== "data" || header.resumed) return;
    const now = Date.now() + this.#skew.ms;
    for (const [i, { table, kind, bytes }] of header.parts.entries()) {
      if (kind !== "upsert" || !SOURCES.includes(table) || bytes > LARGEST) continue;
      const { fields, columns } = readArrow(payloads[i]!);
      const times = columns[fields.findIndex(({ name }) => name === "_ts")] ?? [];
      for (const time of times) if (typeof time === "number") this.#into.add(now - time);
    }
  }
}
