/**
 * All tables of the page. Frames are applied in order; tables that switch to a snapshot switch together. When the page
 * is opened, the first table, which is the join, is drawn before the engine gets the rows of the others.
 */
// 30,000 rows per table take 0.7 s; beyond this limit the page freezes longer than a single-step switch is worth
const MAX_TRANSITION_MS = 2000;
export class GridTables {
    byName; // those of the sources come and go
    #queue = Promise.resolve();
    constructor(tables) {
        this.byName = new Map([...tables].map((table) => [table.name, table]));
    }
    /** Apply the parts of a frame after those before it. `afterwards` runs in the same visual step. */
    enqueue(parts, afterwards) {
        this.#queue = this.#queue
            .then(() => this.#apply(parts, afterwards))
            .catch((error) => console.error(error));
    }
    async #apply(parts, afterwards) {
        const byTable = new Map();
        for (const part of parts) {
            const table = this.byName.get(part.table);
            if (table)
                byTable.set(table, [...(byTable.get(table) ?? []), part]);
        }
        const first = [...this.byName.values()].find((table) => byTable.has(table));
        if (first && !first.shown) {
            const its = byTable.get(first) ?? [];
            byTable.delete(first);
            await first.prepare(its);
            await first.apply(its);
        }
        // snapshots are loaded beforehand, so that the page is frozen for the switch only
        const switches = await Promise.all([...byTable].map(([table, its]) => table.prepare(its)));
        const step = async () => {
            await Promise.all([...byTable].map(([table, its]) => table.apply(its)));
            await afterwards();
        };
        await (switches.includes(true) ? inOneVisualStep(step) : step());
    }
    async rowCounts() {
        const names = [...this.byName.keys()];
        const sizes = await Promise.all(names.map((name) => this.byName.get(name).size()));
        return Object.fromEntries(names.map((name, i) => [name, sizes[i]]));
    }
    /** Rows of a table; `viewConfig` filters and sorts, as Perspective's views do. */
    async rows(table, viewConfig) {
        return this.byName.get(table)?.rows(viewConfig) ?? [];
    }
}
/** Freeze the rendered page by a view transition until the change is complete. */
async function inOneVisualStep(change) {
    if (!document.startViewTransition)
        return change();
    const transition = document.startViewTransition(change);
    // skipped below, which rejects both; a failure of `change` is reported by `updateCallbackDone`
    for (const promise of [transition.ready, transition.finished])
        promise.catch(() => { });
    const limit = setTimeout(() => transition.skipTransition(), MAX_TRANSITION_MS);
    try {
        await transition.updateCallbackDone;
    }
    finally {
        clearTimeout(limit);
        transition.skipTransition();
    }
}
