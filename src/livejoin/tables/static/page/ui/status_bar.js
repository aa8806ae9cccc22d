/**
 * The status bar: what is live, what is being done, how fresh the rows are, and the connection. While the rows are
 * stale it says so, and since when; nothing of it then looks current.
 */
import { Rate } from "../health/rates.js";
import { byId, setText, setTextAndTitle } from "./dom.js";
import { describeChoice, formatCount, formatRate, plural } from "./format.js";
import { formatAge, formatClock, formatTime } from "./time_format.js";
const LATE_MS = 3000; // heartbeats come every second
export class StatusBar {
    #status = null;
    #stale = ""; // why the server's rows are old
    #serverStaleSince = 0; // since when this page knows it
    #limits = "";
    #nothingLive = false; // the rows of the last generation are kept
    #shown = undefined;
    #heartbeatTime = 0; // wall clock, for display
    #heartbeatAt = 0; // performance.now(), for the age: the wall clock can be set
    #disconnected = true;
    #refused = ""; // why it does not reconnect
    #pausedTime = 0;
    #recordsIn = new Rate();
    #changesOut = new Rate();
    #staleSince = 0; // time of the last heartbeat while none come, otherwise 0
    #onStale;
    /** `onStale` gets the wall-clock time of the last heartbeat when no more come, and 0 when they come again. */
    constructor(onStale) {
        this.#onStale = onStale;
        setInterval(() => this.#showConnection(), 1000);
    }
    connected() {
        if (!this.#disconnected)
            return;
        this.#disconnected = false;
        if (!this.#heartbeatTime)
            this.#heard();
        this.#showConnection();
    }
    disconnected() {
        this.#disconnected = true;
        this.#recordsIn.clear();
        this.#changesOut.clear();
        for (const id of ["rate-in", "rate-out", "freshness", "viewers"])
            setText(byId(id), "–");
        this.#showConnection();
    }
    /** The connection ended for good. */
    refused(reason) {
        this.#refused = reason;
        this.disconnected();
        this.#showMessage();
    }
    /** Wall-clock time of the pause, or 0 if not paused. */
    paused(time) {
        this.#pausedTime = time;
        this.#showMessage();
    }
    setStatus(row) {
        this.#status = row;
        this.#showState();
        this.#showMessage();
    }
    heartbeat({ newest, at, stale, tables, limited, capped, viewers, sources, seq }) {
        this.#heard();
        setText(byId("freshness"), newest ? `${formatAge(at - newest)} ago` : "–");
        setText(byId("viewers"), viewers === undefined ? "–" : formatCount(viewers));
        const read = Object.values(sources ?? {}).reduce((sum, { read }) => sum + read, 0);
        this.#recordsIn.add(at, read);
        this.#changesOut.add(at, seq);
        setText(byId("rate-in"), formatRate(this.#recordsIn.perSecond));
        setText(byId("rate-out"), formatRate(this.#changesOut.perSecond));
        if (stale && !this.#stale)
            this.#serverStaleSince = Date.now();
        this.#stale = stale ?? "";
        const limitedTexts = Object.entries(limited ?? {}).map(([table, { total }]) => `${table}: the newest ${formatCount(tables?.[table]?.rows ?? 0)} of ${plural(total, "row")}`);
        const cappedTexts = Object.entries(capped ?? {}).map(([table, { rows, from }]) => `${table} is full: ${plural(rows, "row")}, oldest from ${formatTime(from)}`);
        this.#limits = [...limitedTexts, ...cappedTexts].join("; ");
        this.#showConnection();
        this.#showState();
        this.#showMessage();
    }
    /** Show an error until the next message. */
    showError(message) {
        setTextAndTitle(byId("message"), message);
    }
    /** Show the live generation, if any, and announce a change of it. */
    showGeneration(number, generations) {
        this.#nothingLive = number === null && Boolean(this.#shown);
        this.#showMessage();
        if (this.#nothingLive)
            return;
        const row = generations.find(({ generation }) => generation === number);
        const badge = byId("generation");
        const previous = number === this.#shown ? (byId("choice").textContent ?? "") : ""; // its row may be gone by now
        const choice = row ? describeChoice(row) : previous;
        badge.hidden = number === null;
        setText(badge, number === null ? "" : `generation ${number}`);
        setTextAndTitle(byId("choice"), choice);
        if (this.#shown !== undefined && number !== this.#shown) {
            setText(byId("said"), `now showing generation ${number}${choice && `: ${choice}`}`);
            this.#recordsIn.clear();
            this.#changesOut.clear();
            highlight(badge);
        }
        this.#shown = number;
    }
    #heard() {
        this.#heartbeatTime = Date.now();
        this.#heartbeatAt = performance.now();
    }
    #showConnection() {
        const pill = byId("connection");
        const heard = this.#heartbeatTime > 0;
        const late = heard && performance.now() - this.#heartbeatAt > LATE_MS;
        const since = heard ? `stale since ${formatClock(this.#heartbeatTime)}` : "";
        const disconnected = this.#disconnected || !heard;
        pill.dataset["connected"] = String(!disconnected);
        pill.dataset["late"] = String(late);
        this.#setStaleSince(late || (disconnected && heard) ? this.#heartbeatTime : 0);
        if (this.#refused)
            setText(pill, since ? `stopped, ${since}` : "stopped");
        else if (disconnected)
            setText(pill, heard ? `reconnecting, ${since}` : "connecting");
        else
            setText(pill, late ? since : "connected");
    }
    #setStaleSince(since) {
        byId("strip").dataset["late"] = String(since > 0);
        if (since === this.#staleSince)
            return;
        this.#staleSince = since;
        this.#showState();
        this.#showMessage();
        this.#onStale(since);
    }
    /** What is not known to be so is not called live, nor is there a progress or a rate of it. */
    #showState() {
        const { state, progress } = this.#status ?? { state: "starting", progress: 0 };
        const stale = this.#staleSince > 0 || (state === "live" && this.#stale !== "");
        const building = state === "building" && !stale;
        const bar = byId("progress");
        byId("strip").dataset["state"] = stale ? "stale" : state;
        setText(byId("state"), stale ? "stale" : building ? `building ${progress} %` : state);
        byId("rates").hidden = stale;
        bar.value = Number(progress);
        bar.hidden = !building;
        document.title = `livejoin: ${stale ? "stale" : state}`;
    }
    #showMessage() {
        const kept = this.#nothingLive ? "nothing is live; the last rows are kept" : "";
        const silent = this.#staleSince ? "no word from livejoin; everything here is as of then" : "";
        const stale = this.#refused || silent || this.#stale || kept;
        const since = this.#staleSince || (this.#stale ? this.#serverStaleSince : 0);
        const staleText = `stale${since ? ` since ${formatClock(since)}` : ""}: ${stale}`;
        const status = stale ? staleText : (this.#status?.message ?? "");
        const paused = this.#pausedTime ? `paused: rows as of ${formatClock(this.#pausedTime)}` : "";
        setTextAndTitle(byId("message"), [paused, status, this.#limits].filter(Boolean).join(" · "));
        byId("message").dataset["kind"] = stale ? "bad" : paused ? "busy" : "";
    }
}
function highlight(badge) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches)
        return;
    const lit = { background: "var(--accent)", color: "var(--on-accent)" };
    badge.animate([lit, { ...lit, offset: 0.4 }, {}], { duration: 1800, easing: "ease-out" });
}
