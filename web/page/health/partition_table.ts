/** The partitions of a source's topic, as far as the server lists them: those with the most unread records. */

import type { PartitionFigures, SourcePartitions } from "../../protocol/api_types.js";
import { element } from "../ui/dom.js";
import { formatCount, plural } from "../ui/format.js";
import { formatDuration } from "../ui/time_format.js";

const COLUMNS = ["Partition", "Newest offset in Kafka", "Next offset to read", "Unread records", "Oldest unread for"];

export function partitionTable({ count, worst }: SourcePartitions): HTMLElement[] {
  const more = count - worst.length;
  const headings = COLUMNS.map((name) => element("th", { class: "number", scope: "col" }, name));
  const table = element(
    "table",
    { class: "plain" },
    element("thead", {}, element("tr", {}, ...headings)),
    element("tbody", {}, ...worst.map(partitionRow)),
  );
  const rest = `and ${plural(more, "partition")} more, each with no more unread records than these`;
  return [
    element("h4", {}, "Partitions, those with the most unread records first"),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "partitions" }, table),
    ...(more > 0 ? [element("p", { class: "muted note" }, rest)] : []),
  ];
}

function partitionRow({ partition, newestOffset, nextOffset, lag, behind }: PartitionFigures): HTMLElement {
  const known = (value: number | null) => (value === null ? "–" : formatCount(value));
  const cells = [known(newestOffset), known(nextOffset), known(lag), behind ? formatDuration(1000 * behind) : "–"];
  return element(
    "tr",
    { "data-behind": Boolean(lag) },
    element("th", { class: "number", scope: "row" }, String(partition)),
    ...cells.map((text) => element("td", { class: "number" }, text)),
  );
}
