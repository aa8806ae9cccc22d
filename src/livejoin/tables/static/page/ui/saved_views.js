/** The reader's saved views: layouts with names, in the browser's storage. Dispatches `change`. */
import { cleanName, completeLayout, isRecord, parsed, readLayout, sameArrangement } from "./layout_format.js";
import { formatCount } from "./format.js";
const STORAGE_KEY = "livejoin.views.v1";
const MOST_VIEWS = 50;
const MOST_CHARS = 20_000; // of a layout: all tables arranged take a fifth of it
export const DEFAULT_VIEW = "Default view";
export class SavedViews extends EventTarget {
    #defaults;
    constructor(defaults) {
        super();
        this.#defaults = defaults;
        addEventListener("storage", ({ key }) => {
            if (key === STORAGE_KEY || key === null)
                this.#changed(); // on another page of this browser
        });
    }
    /** By name. Read anew each time: other pages of this browser share the storage. */
    get all() {
        const found = parsed(localStorage.getItem(STORAGE_KEY));
        const views = new Map();
        for (const entry of Array.isArray(found) ? found : []) {
            const layout = isRecord(entry) ? readLayout(entry["layout"]) : null;
            const name = isRecord(entry) ? cleanName(entry["name"]) : "";
            if (layout && name)
                views.set(name, { name, layout: completeLayout(layout, this.#defaults) });
        }
        return [...views.values()].slice(0, MOST_VIEWS).sort((a, b) => a.name.localeCompare(b.name, "en"));
    }
    find(name) {
        return this.all.find((view) => view.name === name);
    }
    has({ name, layout }) {
        const saved = name ? this.find(name) : undefined;
        return saved !== undefined && sameArrangement(saved.layout, layout);
    }
    /** Save a view under a name that is free. */
    add(name, layout) {
        const { all } = this;
        checkFree(name, all);
        checkSize(layout);
        if (all.length >= MOST_VIEWS)
            throw new Error(`There are ${MOST_VIEWS} views, which is the limit. Delete one first.`);
        this.#write([...all, { name, layout }]);
    }
    /** Save another layout under the name of a view. */
    update(name, layout) {
        checkSize(layout);
        this.#write([...this.all.filter((view) => view.name !== name), { name, layout }]);
    }
    rename(from, to) {
        if (from === to)
            return;
        const { all } = this;
        checkFree(to, all);
        this.#write(all.map((view) => (view.name === from ? { ...view, name: to } : view)));
    }
    delete(name) {
        this.#write(this.all.filter((view) => view.name !== name));
    }
    #write(views) {
        try {
            localStorage.setItem(STORAGE_KEY, JSON.stringify(views));
        }
        catch {
            throw new Error("The browser's storage for this page is full or closed.");
        }
        this.#changed();
    }
    #changed() {
        this.dispatchEvent(new Event("change"));
    }
}
function checkSize(layout) {
    const size = JSON.stringify(layout).length;
    if (size <= MOST_CHARS)
        return;
    const sizes = `${formatCount(size)} characters, the limit is ${formatCount(MOST_CHARS)}`;
    throw new Error(`The arrangement is too large for a saved view: ${sizes}. Shorten its filters.`);
}
function checkFree(name, views) {
    if (!name)
        throw new Error("A view needs a name.");
    if (name === DEFAULT_VIEW)
        throw new Error(`“${name}” is the page without changes. Choose another name.`);
    if (views.some((view) => view.name === name))
        throw new Error(`There is a view “${name}”. Choose another name.`);
}
