/** The Health view: sources, latency, matches, checks, rejects. Drawn only while visible. */
import { get } from "../../protocol/http.js";
import { button, byId, setChildren, setText } from "../ui/dom.js";
import { preferences } from "../ui/preferences.js";
import { formatClock, formatTime } from "../ui/time_format.js";
import { LatencyCard } from "./latency_card.js";
import { RejectsCard } from "./rejects.js";
import { drawChecks, drawMatches, drawSparkUi } from "./server_card.js";
import { SourceCard } from "./source_card.js";
import { TIME_RANGES } from "./time_series.js";
const FETCH_MS = 5000;
const CUTOVERS = { columns: ["ts", "generation"], filter: [["event", "in", ["live", "rolled-back"]]] };
export class HealthView {
    latency;
    #tables;
    #sources = new Map();
    #generation = null;
    #range = TIME_RANGES[0];
    #marks = [];
    #since = 0; // server time of the first and the last heartbeat
    #newest = 0;
    #staleSince = 0; // wall clock; 0 while heartbeats come
    #figures = null;
    #checks = [];
    #rejects;
    #fetchedAt = -Infinity;
    #mismatches = 0;
    constructor(tables) {
        this.#tables = tables;
        this.#rejects = new RejectsCard(tables);
        this.latency = new LatencyCard(this.#axis);
        byId("time-range").append(...TIME_RANGES.map((range) => this.#rangeButton(range)));
        preferences.addEventListener("timezone", () => {
            void this.#rejects.drawDetail();
            this.#drawIfVisible();
        });
    }
    #axis = () => ({ range: this.#range, end: this.#newest, marks: this.#marks });
    #rangeButton(range) {
        const chosen = button(range.label, { "aria-pressed": range === this.#range }, () => {
            this.#range = range;
            for (const other of byId("time-range").children)
                other.setAttribute("aria-pressed", String(other === chosen));
            this.draw();
        });
        return chosen;
    }
    heartbeat({ generation, at, sources = {} }) {
        this.#since ||= at;
        this.#newest = at;
        if (generation !== this.#generation) {
            this.#generation = generation;
            this.#fetchedAt = -Infinity;
            for (const [name, card] of this.#sources) {
                if (name in sources)
                    card.generationChanged();
                else
                    this.#sources.delete(name);
            }
        }
        for (const [name, counts] of Object.entries(sources)) {
            const card = this.#sources.get(name) ?? new SourceCard(name, counts, this.#axis);
            card.heartbeat(at, counts);
            this.#sources.set(name, card);
        }
        this.latency.heartbeat(at);
        this.#drawIfVisible();
    }
    /** Wall-clock time of the last heartbeat, or 0 while they come. */
    setStale(since) {
        this.#staleSince = since;
        this.#drawIfVisible();
    }
    /** Number of heartbeats that did not match the rows of this page. */
    setMismatches(count) {
        this.#mismatches = count;
        drawChecks(this.#checks, count);
    }
    /** Rows of `rejects_ui` have changed; they are drawn with the next heartbeat. */
    rejectsChanged() {
        this.#rejects.rowsChanged();
    }
    /** Rows of `orchestrator_logs` have changed: a generation may have gone live. */
    async logsChanged() {
        const lines = await this.#tables.rows("orchestrator_logs", CUTOVERS);
        this.#marks = lines
            .map(({ ts, generation }) => ({ at: ts, label: `generation ${generation} live`, short: String(generation) }))
            .sort((a, b) => a.at - b.at);
    }
    #drawIfVisible() {
        if (!byId("view-health").hidden)
            this.draw();
    }
    draw() {
        setChildren(byId("sources"), [...this.#sources.values()].map(({ element }) => element));
        const none = "Nothing is live yet. Figures appear with the first generation.";
        setText(byId("no-sources"), this.#sources.size ? "" : none);
        const kept = this.#since ? `This page has kept them since ${formatTime(this.#since)}.` : "";
        const stale = `No word from livejoin since ${formatClock(this.#staleSince)}: everything here is as of then.`;
        setText(byId("history-note"), this.#staleSince ? stale : kept);
        for (const card of this.#sources.values())
            card.draw(this.#figures?.lagTrouble ?? null, this.#staleSince > 0);
        this.latency.draw();
        void this.#rejects.draw(new Map([...this.#sources].map(([name, { counts }]) => [name, counts.rejected])));
        const now = performance.now(); // monotonic, unlike the wall clock
        if (now - this.#fetchedAt < FETCH_MS)
            return;
        this.#fetchedAt = now;
        void this.#fetch();
    }
    async #fetch() {
        const [figures, readiness] = await Promise.all([
            get("api/v1/figures"),
            get("readyz?verbose"),
        ]);
        this.#checks = readiness.body?.checks ?? []; // a 503 has them as well
        drawChecks(this.#checks, this.#mismatches);
        if (!figures.ok)
            return;
        this.#figures = figures.body;
        const { partitions, lookups, sources, sparkUi } = figures.body;
        for (const [name, card] of this.#sources)
            card.drawPartitions(partitions[name]);
        drawMatches(Object.keys(sources)[0] ?? "", lookups);
        drawSparkUi(sparkUi ?? "");
    }
}
