/** A source in the Health view: its counts, how fast it is read, what is unread, and its partitions. */

import type { SourcePartitions } from "../../protocol/api_types.js";
import type { SourceCounts } from "../../protocol/frame.js";
import { browseTopic } from "../topics/topic_browser.js";
import { button, descriptionList, element, setText } from "../ui/dom.js";
import { formatCount, formatRate, plural } from "../ui/format.js";
import { formatDuration } from "../ui/time_format.js";
import type { Chart } from "./chart.js";
import { partitionTable } from "./partition_table.js";
import { Rate } from "./rates.js";
import { timeChart } from "./time_chart.js";
import type { TimeAxis } from "./time_chart.js";
import { TimeSeries } from "./time_series.js";

export class SourceCard {
  readonly element: HTMLElement;
  counts: SourceCounts;
  #rate = new Rate();
  #rates = new TimeSeries();
  #unread = new TimeSeries();
  #charts: Chart[];
  #topic = button("", { class: "link topic", title: "Show the records of the topic" }, () =>
    browseTopic(this.#topic.textContent),
  );
  #facts = element("div");
  #rateNow = element("b");
  #unreadNow = element("b");
  #partitions = element("div", { class: "partitions" });

  constructor(name: string, counts: SourceCounts, axis: () => TimeAxis) {
    this.counts = counts;
    const rate = { label: `Records of ${name} read per second`, unit: "records/s", format: formatRate };
    const records = (count: number) => plural(Math.round(count), "record");
    const unread = { label: `Unread records of ${name}`, unit: "records", whole: true, format: records };
    this.#charts = [timeChart(rate, this.#rates, axis), timeChart(unread, this.#unread, axis)];
    this.element = element(
      "article",
      { class: "card", "data-source": name },
      element("h3", {}, name, this.#topic),
      this.#facts,
      note("Every record read becomes a row, is rejected, or has no value (a tombstone)."),
      element("h4", {}, "Records read per second ", this.#rateNow),
      this.#charts[0]!.element,
      element("h4", {}, "Unread records (lag) ", this.#unreadNow),
      note("In Kafka, and not yet in the tables."),
      this.#charts[1]!.element,
      this.#partitions,
    );
  }

  heartbeat(at: number, counts: SourceCounts): void {
    this.counts = counts;
    this.#rate.add(at, counts.read);
    this.#rates.add(at, this.#rate.perSecond);
    this.#unread.add(at, counts.lag);
  }

  /** Another generation counts from its own start. */
  generationChanged(): void {
    this.#rate.clear();
    this.#partitions.replaceChildren(); // of another topic, perhaps
  }

  draw(lagTrouble: string | null, stale: boolean): void {
    const { read, rows, rejected, tombstones } = this.counts;
    this.#facts.replaceChildren(
      descriptionList([
        ["Records read", formatCount(read)],
        ["Rows", formatCount(rows)],
        ["Rejected", formatCount(rejected)],
        ["Without a value", formatCount(tombstones)],
      ]),
    );
    setText(this.#rateNow, stale ? "–" : formatRate(this.#rate.perSecond));
    setText(this.#unreadNow, stale ? "–" : this.#unreadText(lagTrouble));
    this.#unreadNow.className = this.counts.lag && !stale ? "busy" : "";
    for (const chart of this.#charts) chart.draw();
  }

  #unreadText(lagTrouble: string | null): string {
    const { lag, behind } = this.counts;
    if (lag === null) return `unknown${lagTrouble ? `: ${lagTrouble}` : ""}`;
    return formatCount(lag) + (behind ? `, the oldest waiting for ${formatDuration(1000 * behind)}` : "");
  }

  drawPartitions(partitions: SourcePartitions | undefined): void {
    setText(this.#topic, partitions?.topic ?? "");
    this.#topic.hidden = !partitions;
    this.#partitions.replaceChildren(...(partitions ? partitionTable(partitions) : []));
  }
}

const note = (text: string) => element("p", { class: "muted note" }, text);
