/** The published client: tables as rows in memory, kept up to date over one connection. Types: livejoin.d.ts. */
import { readArrow } from "../protocol/arrow.js";
import { Connection, addressOf } from "../protocol/connection.js";
import { Requests } from "./requests.js";
/** The rows of one table. */
class Replica {
    columns = [];
    rows = new Map();
    loaded = false; // a snapshot has arrived
    gone = false; // other sources are joined now
    total = null; // the server's row count, if it sends only the newest
    /** The table does not exist any more. Returns whether it had rows or columns. */
    clear() {
        const had = this.columns.length > 0;
        this.columns = [];
        this.rows = new Map();
        this.total = null;
        this.gone = true;
        return had;
    }
    /** Returns the rows of the part. */
    apply(kind, payload) {
        const { fields, columns, length } = readArrow(payload);
        const rows = new Array(length);
        for (let i = 0; i < length; i++) {
            const row = {};
            for (let c = 0; c < fields.length; c++)
                row[fields[c].name] = columns[c][i];
            rows[i] = row; // every table has `_id`
        }
        if (kind === "snapshot") {
            this.columns = fields;
            this.rows = new Map(rows.map((row) => [row._id, row]));
            this.loaded = true;
            this.gone = false;
        }
        else if (kind === "upsert") {
            for (const row of rows)
                this.rows.set(row._id, row);
        }
        else {
            for (const { _id } of rows)
                this.rows.delete(_id);
        }
        return rows;
    }
}
export class Client {
    #tables = new Map();
    #subscribing = false;
    #connection;
    #requests;
    constructor(url, token) {
        const address = addressOf(url);
        const listener = {
            frame: (frame) => this.#apply(frame),
            statusChanged: () => this.#notifyStatus(),
            mismatch: () => this.#notifyStatus(),
        };
        this.#connection = new Connection(address, listener, { token });
        this.#requests = new Requests(address, token);
    }
    table(name) {
        if (this.#connection.state === "closed")
            throw new Error("this client is closed");
        const shared = this.#tables.get(name) ?? { replica: new Replica(), listeners: new Set(), users: 0 };
        shared.users += 1;
        this.#tables.set(name, shared);
        this.#subscribeSoon();
        const release = () => {
            shared.users -= 1;
            if (shared.users > 0 || this.#tables.get(name) !== shared)
                return;
            this.#tables.delete(name);
            this.#connection.forget(name);
            this.#subscribeSoon();
        };
        return new ClientTable(name, shared, () => this.#statusOf(name, shared.replica), release);
    }
    control(message) {
        return this.#requests.control(message);
    }
    whoami() {
        return this.#requests.whoami();
    }
    close() {
        this.#connection.close();
    }
    /** Tables requested in one go share one subscription. */
    #subscribeSoon() {
        if (this.#subscribing)
            return;
        this.#subscribing = true;
        queueMicrotask(() => {
            this.#subscribing = false;
            this.#connection.subscribe([...this.#tables.keys()]);
        });
    }
    #apply(frame) {
        const { header, parts, gone, verifiable } = frame;
        const { generation, seq } = header;
        const changes = [];
        for (const table of gone) {
            if (!this.#tables.get(table)?.replica.clear())
                continue;
            changes.push({ table, kind: "cutover", rows: [], generation, seq });
        }
        for (const { table, kind, payload, cutover } of parts) {
            const replica = this.#tables.get(table)?.replica;
            if (!replica)
                continue; // released a moment ago
            const rows = replica.apply(kind, payload);
            if (kind === "snapshot")
                replica.total = header.limited?.[table]?.total ?? null;
            changes.push({ table, kind: cutover ? "cutover" : kind, rows, generation, seq });
        }
        const counts = {};
        for (const table of verifiable) {
            const replica = this.#tables.get(table)?.replica;
            if (!replica)
                continue;
            replica.total = header.limited?.[table]?.total ?? null;
            counts[table] = replica.rows.size;
        }
        this.#connection.applied(frame, counts);
        // all tables are up to date before the first listener is called
        for (const change of changes)
            this.#notify(change.table, ({ onChange }) => onChange(change));
    }
    #notifyStatus() {
        for (const [name, { replica }] of this.#tables) {
            const status = this.#statusOf(name, replica);
            this.#notify(name, ({ onStatus }) => onStatus(status));
        }
    }
    #notify(table, call) {
        for (const listener of [...(this.#tables.get(table)?.listeners ?? [])]) {
            try {
                call(listener);
            }
            catch (error) {
                queueMicrotask(() => {
                    throw error; // reported as uncaught, without stopping the client
                });
            }
        }
    }
    #statusOf(table, { rows, total, gone }) {
        const { state, reason, serverStale, heartbeatAt, mismatches, session } = this.#connection;
        const kept = session.nothingLive && session.isData(table) ? "nothing is live; the last rows are kept" : "";
        const missing = gone ? "there is no such table now: other sources are joined" : "";
        return {
            state,
            stale: (state === "following" ? serverStale || missing || kept : reason) || null,
            generation: session.generation,
            seq: session.seq,
            rows: rows.size,
            total: total ?? rows.size,
            heartbeatAgeMs: heartbeatAt === null ? null : Math.round(performance.now() - heartbeatAt),
            mismatches,
        };
    }
}
/** One user's handle of a table. */
class ClientTable {
    name;
    #shared;
    #status;
    #release;
    #listeners = new Set(); // of this handle
    #closed = false;
    constructor(name, shared, status, release) {
        this.name = name;
        this.#shared = shared;
        this.#status = status;
        this.#release = release;
    }
    get columns() {
        return this.#shared.replica.columns;
    }
    get status() {
        return this.#status();
    }
    rows() {
        return [...this.#shared.replica.rows.values()];
    }
    row(id) {
        return this.#shared.replica.rows.get(id);
    }
    subscribe(onChange, onStatus = () => { }) {
        if (this.#closed)
            throw new Error("this table is closed");
        const listener = { onChange, onStatus };
        this.#shared.listeners.add(listener);
        this.#listeners.add(listener);
        if (this.#shared.replica.loaded) {
            const { generation, seq } = this.status;
            onChange({ table: this.name, kind: "snapshot", rows: this.rows(), generation, seq });
        }
        onStatus(this.status);
        return () => {
            this.#shared.listeners.delete(listener);
            this.#listeners.delete(listener);
        };
    }
    close() {
        if (this.#closed)
            return;
        this.#closed = true;
        for (const listener of this.#listeners)
            this.#shared.listeners.delete(listener);
        this.#listeners.clear();
        this.#release();
    }
}
