/**
 * Whether what came is what the server has: rows and hash of each table, against every heartbeat.
 * Works through what came in its order, a few milliseconds at a time, so that a page with large tables stays quick.
 * Asks for fresh snapshots where something differs, ever more rarely if that does not help.
 */
import { TableHash } from "./table_hash.js";
const SLICE_MS = 4; // a quarter of a picture
const LONGEST_MS = 60_000; // what never fits must not become a stream of snapshots
export class Checker {
    mismatches = 0; // heartbeats that did not fit
    #tables = new Map();
    #work = [];
    #due = false;
    #inARow = 0;
    #afreshAt = 0;
    #differed;
    /** `differed` is told of each heartbeat that does not fit, and whether it is time to ask for fresh snapshots. */
    constructor(differed) {
        this.#differed = differed;
    }
    /** A part has been applied to a table. */
    take(table, kind, payload) {
        let hash = this.#tables.get(table);
        if (!hash)
            this.#tables.set(table, (hash = new TableHash()));
        this.#add(hash.apply(kind, payload));
    }
    /** Nobody follows this table any more. */
    forget(table) {
        this.#tables.delete(table);
    }
    /** A heartbeat has come after the parts above. `rows` is how many there are where the tables are kept. */
    expect(told, rows) {
        this.#add(this.#compare(told, rows));
    }
    *#compare(told, rows) {
        const differs = Object.entries(told).some(([table, { rows: count, hash }]) => {
            const held = this.#tables.get(table);
            return held && (rows[table] !== count || held.rows !== count || held.text !== hash);
        });
        if (!differs) {
            this.#inARow = 0;
            return;
        }
        this.mismatches += 1;
        const now = performance.now(); // the wall clock can be set
        const afresh = now >= this.#afreshAt;
        if (afresh) {
            this.#afreshAt = now + Math.min(1000 * 2 ** this.#inARow, LONGEST_MS);
            this.#inARow += 1;
        }
        this.#differed(afresh);
    }
    #add(work) {
        this.#work.push(work);
        if (!this.#due)
            this.#run();
    }
    #run() {
        this.#due = false;
        // a page that nobody sees has its timers slowed down, and need not be quick
        const end = globalThis.document?.hidden ? Infinity : performance.now() + SLICE_MS;
        try {
            while (this.#work.length && performance.now() < end)
                if (this.#work[0].next().done)
                    this.#work.shift();
        }
        catch (error) {
            this.#work.shift();
            throw error;
        }
        finally {
            if (this.#work.length) {
                this.#due = true;
                setTimeout(() => this.#run());
            }
        }
    }
}
