/**
 * Client side of `livejoin.v1` without a socket or a clock: one subscription over any number of sockets, one after the
 * other. Decides what to send, which parts of a frame to apply and whether a new socket can resume. The counterpart of
 * `client/session.py`.
 *
 *     disconnected ─hello()─▶ awaiting ─snapshots of all tables, or resumed─▶ settled
 *                               ▲                                              │
 *                               └──── tables were added, or a hash differs ◀───┘
 */
import { readArrowStream } from "./arrow.js";
export class Session {
    generation = null;
    seq = 0;
    nothingLive = false; // the rows of the last generation are kept
    #wanted = [];
    #sentFirst = []; // the first subscription over this socket
    #sent = []; // the last one
    #resuming = false;
    #awaiting = "first";
    #complete = null; // the set of tables that are all at our position
    #wait;
    #gone = new Set(); // subscribed tables that do not exist now
    #isData = new Map(); // by table: whether it belongs to a generation; known since its snapshot
    /** `wait`: also subscribe to tables that are yet to come; otherwise livejoin refuses unknown ones. */
    constructor(wait = false) {
        this.#wait = wait;
    }
    get wanted() {
        return this.#wanted;
    }
    /** Nothing has arrived over this socket yet: large snapshots take time. */
    get awaitingFirst() {
        return this.#awaiting === "first";
    }
    /** All subscribed tables have arrived. */
    get settled() {
        return this.#awaiting === "";
    }
    /** Subscribe to these tables from now on. Returns whether that takes a new message. */
    want(tables) {
        this.#wanted = tables;
        const missing = tables.filter((table) => !this.#isData.has(table) && !this.#gone.has(table));
        const forgotten = this.settled && missing.length > 0; // and wanted again
        return forgotten || keyOf(tables) !== keyOf(this.#sent);
    }
    /** The rows of a table were discarded. */
    forget(table) {
        this.#isData.delete(table);
    }
    isData(table) {
        return this.#isData.get(table) === true;
    }
    /** The first message over a new socket. */
    hello() {
        this.#awaiting = "first";
        this.#sentFirst = this.#sent = this.#wanted;
        // a position is valid only for the tables it was reached with
        this.#resuming = this.generation !== null && this.#complete === keyOf(this.#sent);
        const resume = this.#resuming ? { resume: { generation: this.generation, seq: this.seq } } : {};
        return JSON.stringify({ subscribe: this.#sent, ...this.#options, ...resume });
    }
    /** A message that asks for new snapshots over the same socket. */
    resubscribe() {
        if (this.#awaiting !== "first")
            this.#awaiting = "again";
        this.#complete = null;
        this.#sent = this.#wanted;
        return JSON.stringify({ subscribe: this.#sent, ...this.#options });
    }
    get #options() {
        return this.#wait || this.#gone.size ? { wait: true } : {};
    }
    /** The tables may be damaged: do not resume from them. */
    invalidate() {
        this.#complete = null;
    }
    /** Null for a frame type of a later version. Throws if the frame breaks the protocol. */
    receive(frame) {
        const { type } = frame.header;
        if (type === "heartbeat")
            return this.#heartbeat(frame.header);
        return type === "data" || type === "cutover" ? this.#apply(frame) : null;
    }
    #apply({ header, payloads }) {
        const snapshots = new Set(header.parts.filter(({ kind }) => kind === "snapshot").map(({ table }) => table));
        const gone = new Set(header.gone);
        const includes = (tables) => tables.every((table) => snapshots.has(table) || gone.has(table));
        const first = this.#awaiting === "first";
        const resumed = first && this.#resuming && (header.resumed === true || this.#resumedWithoutLive(header, snapshots));
        if (first && !resumed && !includes(this.#sentFirst))
            throw new Error("the first frame lacks a table");
        const answered = includes(this.#sent) || (resumed && keyOf(this.#sent) === keyOf(this.#sentFirst));
        this.nothingLive = header.generation === null && this.generation !== null;
        const parts = this.#partsToApply(header, payloads);
        if (first)
            this.#awaiting = "again"; // tables may have been added since
        if (answered) {
            this.#awaiting = "";
            if (header.generation !== null)
                this.#complete = keyOf(this.#sent);
            else if (this.#complete !== keyOf(this.#sent))
                this.#complete = null;
        }
        this.#move(header);
        if (first || answered || header.type === "cutover")
            this.#gone = gone;
        // a server that has just started does not know the tables yet: keep ours
        return { header, parts, gone: header.generation === null ? [] : [...gone], verifiable: [] };
    }
    /** While nothing is live the server resumes by leaving the data tables out. */
    #resumedWithoutLive({ generation }, snapshots) {
        return (generation === null &&
            this.#sentFirst.every((table) => snapshots.has(table) || (this.#isData.get(table) ?? true)));
    }
    #partsToApply(header, payloads) {
        const moved = header.type === "cutover" || (this.generation !== null && header.generation !== this.generation);
        const parts = [];
        for (const [i, { table, kind }] of header.parts.entries()) {
            const payload = payloads[i];
            if (!this.#wanted.includes(table))
                continue; // unsubscribed in the meantime
            if (this.nothingLive && this.isData(table))
                continue; // a restarted server has no rows yet: keep ours
            if (kind === "snapshot")
                this.#isData.set(table, hasTimestamps(payload));
            else if (!this.#isData.has(table))
                throw new Error(`${table} changed before its snapshot`);
            parts.push({ table, kind, payload, cutover: moved && kind === "snapshot" && this.isData(table) });
        }
        return parts;
    }
    #heartbeat(header) {
        if (!this.settled)
            return { header, parts: [], gone: [], verifiable: [] };
        this.#move(header);
        const verifiable = this.#wanted.filter((table) => header.tables?.[table] && this.#isData.has(table) && !(this.isData(table) && header.generation === null));
        return { header, parts: [], gone: [], verifiable };
    }
    #move({ generation, seq }) {
        if (generation === null)
            return;
        this.generation = generation;
        this.seq = seq;
    }
}
/** Whether the table belongs to a generation: rows of livejoin's own tables have no Kafka timestamp. */
function hasTimestamps(payload) {
    return readArrowStream(payload).fields.some(({ name }) => name === "_ts");
}
const keyOf = (tables) => [...tables].sort().join();
