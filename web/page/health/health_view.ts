/** The Health view: sources, latency, match rate, readiness checks, rejects. Drawn only while visible. */

import type { Figures, Generation, ReadinessCheck } from "../../protocol/api_types.js";
import type { FrameHeader, SourceCounts } from "../../protocol/frame.js";
import { get } from "../../protocol/http.js";
import type { GridTables } from "../grid/grid_tables.js";
import { byId, descriptionList, element, setText } from "../ui/dom.js";
import { formatCount, formatRate, plural } from "../ui/format.js";
import { formatDuration } from "../ui/time_format.js";
import { histogramChart, sparkline } from "./charts.js";
import { RejectsList } from "./rejects.js";
import { Histogram } from "./latency.js";
import { Rate, Trend } from "./rates.js";

const FETCH_MS = 5000;
type SourceHistory = { counts: SourceCounts; rate: Rate; rates: Trend; lags: Trend };

export class HealthView {
  readonly latency = new Histogram();
  #sources = new Map<string, SourceHistory>();
  #generation: number | null = null;
  #topics: Record<string, string> = {};
  #figures: Figures | null = null;
  #checks: ReadinessCheck[] = [];
  #rejects: RejectsList;
  #fetchedAt = -Infinity;
  #mismatches = 0;

  constructor(tables: GridTables) {
    this.#rejects = new RejectsList(tables, byId("rejects-list"), byId("reject-detail"));
    byId("latency-reset").addEventListener("click", () => {
      this.latency.clear();
      this.#drawLatency();
    });
  }

  get #visible(): boolean {
    return !byId("view-health").hidden;
  }

  setLive(generation: Generation | undefined): void {
    this.#topics = generation ? { users: generation.usersTopic, accounts: generation.accountsTopic } : {};
  }

  heartbeat({ generation, at, sources = {} }: FrameHeader): void {
    if (generation !== this.#generation) {
      this.#generation = generation;
      this.#sources.clear();
      this.#fetchedAt = -Infinity;
    }
    for (const [name, counts] of Object.entries(sources)) {
      const source = this.#sources.get(name) ?? { counts, rate: new Rate(), rates: new Trend(), lags: new Trend() };
      source.counts = counts;
      source.rate.add(at, counts.read);
      source.rates.add(source.rate.perSecond);
      source.lags.add(counts.lag);
      this.#sources.set(name, source);
    }
    if (this.#visible) this.draw();
  }

  /** Number of heartbeats that did not match the rows of this page. */
  setMismatches(count: number): void {
    this.#mismatches = count;
    if (this.#visible) this.#drawChecks();
  }

  /** Rows of `rejects_ui` have changed. */
  rejectsChanged(): void {
    if (this.#visible) void this.#rejects.draw();
  }

  draw(): void {
    byId("sources").replaceChildren(...[...this.#sources].map(([name, source]) => this.#sourceCard(name, source)));
    const none = "Nothing is live yet. Figures appear with the first generation.";
    setText(byId("no-sources"), this.#sources.size ? "" : none);
    this.#drawLatency();
    const now = performance.now(); // monotonic, unlike the wall clock
    if (now - this.#fetchedAt < FETCH_MS) return;
    this.#fetchedAt = now;
    void this.#rejects.draw();
    void this.#fetch();
  }

  #sourceCard(name: string, { counts, rate, rates, lags }: SourceHistory): HTMLElement {
    const oldest = counts.behind ? `, the oldest waiting for ${formatDuration(1000 * counts.behind)}` : "";
    const trouble = this.#figures?.lagTrouble;
    const unknown = `unknown${trouble ? `: ${trouble}` : ""}`;
    const lag = counts.lag === null ? unknown : plural(counts.lag, "record") + oldest;
    return element(
      "article",
      { class: "card", "data-source": name },
      element("h3", {}, name, element("span", { class: "muted topic" }, this.#topics[name] ?? "")),
      descriptionList([
        ["Read", formatCount(counts.read)],
        ["Rows", formatCount(counts.rows)],
        ["Rejects", formatCount(counts.rejected)],
        ["Tombstones", formatCount(counts.tombstones)],
      ]),
      element("h4", {}, "Records per second ", element("b", {}, formatRate(rate.perSecond))),
      sparkline(rates.values, `records per second of ${name} over the last two minutes`),
      element("h4", {}, "Lag ", element("b", { class: counts.lag ? "busy" : "" }, lag)),
      sparkline(lags.values, `unread records of ${name} over the last two minutes`),
    );
  }

  #drawLatency(): void {
    const { latency } = this;
    const quantile = (share: number) => {
      const ms = latency.quantile(share);
      return ms === null ? "–" : formatDuration(ms);
    };
    byId("latency-facts").replaceChildren(
      descriptionList([
        ["p50", quantile(0.5)],
        ["p95", quantile(0.95)],
        ["p99", quantile(0.99)],
        ["Records", formatCount(latency.total)],
      ]),
    );
    byId("latency-chart").replaceChildren(
      latency.total
        ? histogramChart(latency, "latency from Kafka to this browser")
        : element("p", { class: "muted" }, "No records since the page was opened."),
    );
    const negative = latency.negative
      ? ` ${plural(latency.negative, "record")} with a timestamp in the future: a producer's clock is ahead.`
      : "";
    setText(
      byId("latency-note"),
      `From a record's Kafka timestamp until its row is in this page, by livejoin's clock.${negative}`,
    );
  }

  async #fetch(): Promise<void> {
    const [figures, readiness] = await Promise.all([
      get<Figures>("api/v1/figures"),
      get<{ checks: ReadinessCheck[] }>("readyz?verbose"),
    ]);
    if (figures.ok) this.#figures = figures.body;
    this.#checks = readiness.body?.checks ?? []; // a 503 has them as well
    this.#drawMatches();
    this.#drawChecks();
  }

  #drawMatches(): void {
    const { users, matched, unmatched } = this.#figures?.matched ?? { users: 0, matched: 0, unmatched: 0 };
    const percent = users ? (100 * matched) / users : 0;
    const fill = element("span", { class: "fill" });
    fill.style.width = `${percent}%`;
    const label = `${percent.toFixed(0)} % of the users have an account`;
    byId("matched").replaceChildren(
      descriptionList([
        ["With an account", `${formatCount(matched)} (${percent.toFixed(1)} %)`],
        ["Without", formatCount(unmatched)],
      ]),
      element("div", { class: "meter", role: "img", "aria-label": label }, fill),
    );
  }

  #drawChecks(): void {
    const page: ReadinessCheck = {
      name: "this page",
      ok: !this.#mismatches,
      why: `differed from the server ${plural(this.#mismatches, "time")} and was resynchronized`,
    };
    byId("checks").replaceChildren(
      ...[...this.#checks, page].map(({ name, ok, why }) =>
        element("li", { "data-ok": ok }, element("b", {}, name), ok ? " is fine" : ` ${why}`),
      ),
    );
    const link = byId<HTMLAnchorElement>("spark-ui");
    const address = this.#figures?.sparkUi ?? "";
    link.hidden = !address;
    if (address) link.href = address;
    byId("no-spark-ui").hidden = Boolean(address);
  }
}
