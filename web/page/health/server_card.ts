/** What the server says of itself: rows of the driver with each lookup, readiness checks, Spark's UI. */

import type { Figures, Matches, ReadinessCheck } from "../../protocol/api_types.js";
import { byId, descriptionList, element, setText } from "../ui/dom.js";
import { capitalize, formatCount, listed, oneOf, plural } from "../ui/format.js";

/** What a check is about, where its name does not say it. */
const EXPLANATIONS: Record<string, string> = {
  kafka: "the cluster of livejoin's own topics answers",
  kafka_data: "the cluster of the source topics answers",
  kafka_control: "the cluster of the control topic answers",
  ledger: "what is live has been read from livejoin's own topics",
  follower: "new rows are being read",
  format: "this server understands what the leader writes",
  leader: "a livejoin leads, and builds what is requested",
  "live generation": "there are tables to show",
  staleness: "the rows are up to date",
  lag: "Kafka says where the topics end",
  "this page": "it has the server's rows",
};

/** How many rows of the driver have a record of each lookup. */
export function drawMatches(driver: string, lookups: Figures["lookups"]): void {
  const names = Object.keys(lookups);
  setText(byId("matched-title"), `${capitalize(driver)} with ${listed(names.map(oneOf))}`);
  byId("matched").replaceChildren(...names.flatMap((name) => matches(driver, name, lookups[name]!)));
}

function matches(driver: string, lookup: string, { matched, unmatched }: Matches): HTMLElement[] {
  const percent = matched + unmatched ? (100 * matched) / (matched + unmatched) : 0;
  const fill = element("span", { class: "fill" });
  fill.style.width = `${percent}%`;
  const label = `${percent.toFixed(0)} % of the ${driver} have ${oneOf(lookup)}`;
  return [
    descriptionList([
      [`With ${oneOf(lookup)}`, `${formatCount(matched)} (${percent.toFixed(1)} %)`],
      ["Without", formatCount(unmatched)],
    ]),
    element("div", { class: "meter", role: "img", "aria-label": label }, fill),
  ];
}

/** `mismatches` is the number of heartbeats that did not match the rows of this page. */
export function drawChecks(checks: ReadinessCheck[], mismatches: number): void {
  const why = `differed from the server ${plural(mismatches, "time")} and was resynchronized`;
  const page: ReadinessCheck = { name: "this page", ok: !mismatches, why };
  byId("checks").replaceChildren(
    ...[...checks, page].map(({ name, ok, why: trouble }) =>
      element(
        "li",
        { "data-ok": ok },
        element("b", {}, name),
        ok ? " is fine" : ` ${trouble}`,
        element("span", { class: "muted" }, ok && EXPLANATIONS[name] ? `: ${EXPLANATIONS[name]}` : ""),
      ),
    ),
  );
}

export function drawSparkUi(address: string): void {
  const link = byId<HTMLAnchorElement>("spark-ui");
  link.hidden = !address;
  if (address) link.href = address;
  byId("no-spark-ui").hidden = Boolean(address);
}
