/** The Health view: sources, matches, latency, rejects, checks. Drawn only while it is looked at. */
import { ask } from "../../protocol/http.js";
import { bars, sparkline } from "./charts.js";
import { byId, facts, make, put } from "../ui/dom.js";
import { Histogram, Rate, Trend } from "./statistics.js";
import { Rejects } from "./rejects.js";
import { span } from "../ui/time_format.js";
import { counted, perSecond } from "../../protocol/api_types.js";
const ASK_MS = 5000;
const SLOTS = 120; // heartbeats that a trend shows
export class Health {
    latency = new Histogram();
    #sources = new Map();
    #generation = null;
    #topics = {};
    #figures = null;
    #checks = [];
    #rejects;
    #askedAt = -Infinity;
    #mismatches = 0;
    constructor(replicas) {
        this.#rejects = new Rejects(replicas, byId("rejects-list"), byId("reject-detail"));
        byId("latency-reset").addEventListener("click", () => {
            this.latency.clear();
            this.#drawLatency();
        });
    }
    get #shown() {
        return !byId("view-health").hidden;
    }
    /** Which topics the sources read. */
    live(generation) {
        this.#topics = generation ? { users: generation.usersTopic, accounts: generation.accountsTopic } : {};
    }
    heartbeat({ generation, at, sources = {} }) {
        if (generation !== this.#generation) {
            this.#generation = generation;
            this.#sources.clear();
            this.#askedAt = -Infinity;
        }
        for (const [name, now] of Object.entries(sources)) {
            const known = this.#sources.get(name) ?? { now, rate: new Rate(), rates: new Trend(), lags: new Trend() };
            known.now = now;
            known.rate.add(at, now.read);
            known.rates.add(known.rate.perSecond);
            known.lags.add(now.lag);
            this.#sources.set(name, known);
        }
        if (this.#shown)
            this.draw();
    }
    /** How many heartbeats told other rows than are here. */
    mismatches(count) {
        this.#mismatches = count;
        if (this.#shown)
            this.#drawChecks();
    }
    /** Rows of `rejects_ui` have changed. */
    rejectsChanged() {
        if (this.#shown)
            void this.#rejects.draw();
    }
    /** The view has come into sight, or something in it is new. */
    draw() {
        byId("sources").replaceChildren(...[...this.#sources].map(([name, one]) => this.#source(name, one)));
        put(byId("no-sources"), this.#sources.size ? "" : "Nothing is live yet. Figures appear with the first generation.");
        this.#drawLatency();
        const now = performance.now(); // the wall clock can be set
        if (now - this.#askedAt < ASK_MS)
            return;
        this.#askedAt = now;
        void this.#rejects.draw();
        void this.#ask();
    }
    #source(name, { now, rate, rates, lags }) {
        const behind = now.behind ? `, the oldest for ${span(1000 * now.behind)}` : "";
        const lag = now.lag === null
            ? `not known${this.#figures?.lagTrouble ? `: ${this.#figures.lagTrouble}` : " yet"}`
            : counted(now.lag, "record") + behind;
        const card = make("article", { class: "card", "data-source": name }, make("h3", {}, name, make("span", { class: "soft topic" }, this.#topics[name] ?? "")), facts([
            ["Read", now.read.toLocaleString("en")],
            ["Rows", now.rows.toLocaleString("en")],
            ["Rejects", now.rejected.toLocaleString("en")],
            ["Tombstones", now.tombstones.toLocaleString("en")],
        ]), make("h4", {}, "Records per second ", make("b", {}, perSecond(rate.perSecond))), sparkline(rates.values, SLOTS, `records per second of ${name} over the last two minutes`), make("h4", {}, "Lag ", make("b", { class: now.lag ? "busy" : "" }, lag)), sparkline(lags.values, SLOTS, `unread records of ${name} over the last two minutes`));
        return card;
    }
    #drawLatency() {
        const { latency } = this;
        const told = (share) => {
            const ms = latency.quantile(share);
            return ms === null ? "–" : span(ms);
        };
        byId("latency-facts").replaceChildren(facts([
            ["p50", told(0.5)],
            ["p95", told(0.95)],
            ["p99", told(0.99)],
            ["Records", latency.total.toLocaleString("en")],
        ]));
        byId("latency-chart").replaceChildren(latency.total
            ? bars(latency, "latency from Kafka to this browser")
            : make("p", { class: "soft" }, "No record has come since the page was opened."));
        const ahead = latency.ahead
            ? ` ${counted(latency.ahead, "record")} came before their own time: a producer's clock is ahead.`
            : "";
        put(byId("latency-note"), `From a record's Kafka timestamp until its row is in this page; livejoin's clock counts.${ahead}`);
    }
    async #ask() {
        const [figures, ready] = await Promise.all([
            ask("api/v1/figures"),
            ask("readyz?verbose"),
        ]);
        if (figures.ok)
            this.#figures = figures.body;
        this.#checks = ready.body?.checks ?? [];
        this.#drawMatched();
        this.#drawChecks();
    }
    #drawMatched() {
        const { users, matched, unmatched } = this.#figures?.matched ?? { users: 0, matched: 0, unmatched: 0 };
        const share = users ? (100 * matched) / users : 0;
        const meter = make("div", {
            class: "meter",
            role: "img",
            "aria-label": `${share.toFixed(0)} % of the users are matched`,
        });
        const full = make("span", { class: "full" });
        full.style.width = `${share}%`;
        meter.append(full);
        byId("matched").replaceChildren(facts([
            ["With an account", `${matched.toLocaleString("en")} (${share.toFixed(1)} %)`],
            ["Without", unmatched.toLocaleString("en")],
        ]), meter);
    }
    #drawChecks() {
        const page = {
            name: "this page",
            ok: !this.#mismatches,
            why: `had other rows than the server ${counted(this.#mismatches, "time")}, and took them afresh`,
        };
        byId("checks").replaceChildren(...[...this.#checks, page].map(({ name, ok, why }) => make("li", { "data-ok": ok }, make("b", {}, name), ok ? " is fine" : ` ${why}`)));
        const link = byId("spark-ui");
        const address = this.#figures?.sparkUi ?? "";
        link.hidden = !address;
        if (address)
            link.href = address;
        byId("no-spark-ui").hidden = Boolean(address);
    }
}
