/**
 * One table in the Perspective engine, with the viewer that shows it.
 * A snapshot becomes a new engine table, which then replaces the one the viewer shows. After `replace`, or after rows
 * were added to a table that started empty, Perspective sorts nulls wrongly and loses rows of filtered views
 * (decision 20). Independent of what the tables mean.
 */
import { cellReader, readArrow, readArrowStream } from "../../protocol/arrow.js";
import { EXPERT_PANEL } from "../arrange/expert_panel.js";
import { preferences } from "../ui/preferences.js";
import { chartTimeFormat } from "../ui/time_format.js";
import { numberFormats, withoutFormats } from "./column_types.js";
import { fitChanged, fitConfig } from "./fit_config.js";
import { styleSheet } from "./style_sheet.js";
const CHART_MS = 10_000; // a chart reads its table in its own worker and does not report when it has finished
const HIDDEN_MS = 500; // hidden viewers wait until the visible ones are rendered
export class GridTable {
    name;
    viewer;
    ready = false; // the viewer is loaded
    #engine;
    #settings;
    #saved; // the arrangement to show, relative to the defaults
    #current = null;
    #next = null; // replaces the current table
    #created = 0; // for unique names: the viewer may still use the previous table
    #empty = true; // the newest engine table has never had a row
    #switching = null;
    #readers = new Set();
    #types = {};
    #numberFormats = {}; // of decimals
    #removed = new AbortController();
    #opening;
    #defaults = {};
    #savedDefaults = {}; // the defaults as the viewer reports them
    #gridListeners = [];
    #configListeners = [];
    #rowListeners = [];
    constructor(engine, viewer, settings) {
        this.#engine = engine;
        this.viewer = viewer;
        this.name = viewer.dataset["table"] ?? "";
        this.#settings = settings;
        this.#saved = settings.saved;
    }
    /** The listener is called once, with the grid before its first rows are drawn. */
    onGrid(listener) {
        this.#gridListeners.push(listener);
    }
    /** The listener is called with the viewer's configuration once it is loaded, and when it has changed. */
    onConfig(listener) {
        this.#configListeners.push(listener);
    }
    /** The listener is called with the ids of rows that are about to be added or changed, apart from snapshots. */
    onRows(listener) {
        this.#rowListeners.push(listener);
    }
    /** Types of the columns, in their order; none before the first snapshot. */
    get types() {
        return this.#types;
    }
    /** Load a snapshot into a new engine table without showing it. Returns whether `apply` will switch tables. */
    async prepare(parts) {
        for (const part of parts) {
            const needsTable = part.kind === "snapshot" || (part.kind === "upsert" && this.#empty);
            if (!needsTable && this.#next)
                await applyPart(this.#next.table, part);
            if (!needsTable)
                continue;
            const unused = this.#next;
            this.#next = null; // if creating the table fails, a deleted one must not be shown
            await unused?.table.delete();
            const name = `${this.name} ${(this.#created += 1)}`;
            const formats = numberFormats(part.payload); // before the engine takes the bytes
            const table = await this.#engine.table(part.payload, { index: "_id", name });
            this.#next = { table, name, columns: { types: await typesOf(table), formats } };
            this.#empty = (await table.size()) === 0;
        }
        return this.#next !== null && this.#current !== null;
    }
    /** Show the prepared table, or else apply the parts to the current one. */
    async apply(parts) {
        if (this.#next)
            await this.#switchTo(this.#next);
        else
            for (const part of parts)
                if (this.#current)
                    await this.#applyToCurrent(this.#current.table, part);
    }
    async #applyToCurrent(table, part) {
        if (part.kind === "upsert" && this.visible && this.#rowListeners.length) {
            const ids = idsOf(part.payload); // before the engine takes the bytes
            for (const listener of this.#rowListeners)
                listener(ids);
        }
        await applyPart(table, part);
    }
    async #switchTo(next) {
        const switched = this.#replaceCurrent(next);
        this.#switching = Promise.allSettled([switched]).then(() => void (this.#switching = null));
        await switched;
    }
    async #replaceCurrent(next) {
        let opening;
        do {
            opening = this.#opening; // a hidden viewer may be opening just now
            await Promise.allSettled([...this.#readers, opening]); // the readers handle their own errors
        } while (opening !== this.#opening);
        const previous = this.#current;
        this.#current = next;
        this.#next = null;
        if (!previous)
            return this.#open(next.columns);
        const types = this.#types;
        const same = JSON.stringify(previous.columns) === JSON.stringify(next.columns);
        if (!same)
            this.#setColumns(next.columns);
        const chart = this.ready && (await (same ? this.#rebindViewer() : this.#rearrange(types)));
        if (chart)
            setTimeout(() => previous.table.delete(), CHART_MS);
        else
            await previous.table.delete(); // frees its strings as well
    }
    /** Give the viewer the current table; configuration, selection and scroll position stay. Returns whether it is a chart. */
    async #rebindViewer() {
        const { regular_table: grid } = await this.viewer.getPlugin(); // a chart has none
        // no other await before `restore`: it would undo what the user changes in the meantime
        const { settings: _settings, theme: _theme, title: _title, ...config } = await this.viewer.save();
        const selection = this.viewer.getSelection();
        const { scrollLeft = 0, scrollTop = 0 } = grid ?? {};
        grid?.resetAutoSize({ auto: true, indices: true }); // the columns fit the new rows
        await this.viewer.restore({ ...config, ...this.#binding });
        if (selection)
            this.viewer.setSelection(selection);
        if (grid && (grid.scrollLeft !== scrollLeft || grid.scrollTop !== scrollTop))
            grid.scrollTo(scrollLeft, scrollTop);
        return !grid;
    }
    /** The current table has other columns: keep what of the arrangement they allow. Returns whether it is a chart. */
    async #rearrange(before) {
        const { config, missing } = fitChanged(await this.#userConfig(), before, this.#types, this.#savedDefaults.columns ?? []);
        await this.#restore({ ...NOTHING_CHOSEN, ...this.#defaults });
        this.#savedDefaults = await this.#userConfig();
        const failed = await this.#arrange(config);
        const misfit = failed || this.#describeMissing(missing);
        if (misfit)
            void this.#reportMisfit(misfit);
        return !(await this.viewer.getPlugin()).regular_table;
    }
    /** Whether there is a table to show. */
    get shown() {
        return this.#current !== null;
    }
    get #binding() {
        return this.#current ? { table: this.#current.name } : {};
    }
    /** Read from the viewer or the table; a switch of tables waits for it. */
    async reading(read) {
        while (this.#switching)
            await this.#switching;
        const reader = read();
        this.#readers.add(reader);
        try {
            return await reader;
        }
        finally {
            this.#readers.delete(reader);
        }
    }
    /** Row count; 0 before the first snapshot. */
    async size() {
        return this.reading(async () => (await this.#current?.table.size()) ?? 0);
    }
    /** `viewConfig` filters and sorts, as Perspective's views do. */
    async rows(viewConfig) {
        return (await this.#readView(viewConfig, (view) => view.to_json())) ?? [];
    }
    /** Number of rows that pass the filters of a configuration. */
    async passing({ filter = [], expressions = {} }) {
        while (this.#switching)
            await this.#switching;
        // the table may have other columns by now
        ({ filter = [], expressions = {} } = fitConfig({ filter, expressions }, this.#types).config);
        return (await this.#readView({ filter, expressions, columns: ["_id"] }, (view) => view.num_rows())) ?? 0;
    }
    /** Read a view of our own; undefined before the first snapshot. */
    async #readView(viewConfig, read) {
        return this.reading(async () => {
            const view = await this.#current?.table.view(viewConfig);
            try {
                return view && (await read(view));
            }
            finally {
                await view?.delete();
            }
        });
    }
    #setColumns({ types, formats }) {
        this.#types = types;
        this.#numberFormats = formats;
        const columns = Object.keys(types).filter((name) => !name.startsWith("_"));
        this.#defaults = { plugin: "Datagrid", settings: false, columns, ...this.#settings.defaults };
    }
    async #open(columns) {
        this.#setColumns(columns);
        if (this.visible)
            await (this.#opening = this.#openViewer());
        else
            setTimeout(() => (this.#opening = this.#openViewer()), HIDDEN_MS);
    }
    async #openViewer() {
        await this.viewer.load(this.#engine);
        this.viewer.shadowRoot?.adoptedStyleSheets.push(HIDE_TITLEBAR, EXPERT_PANEL);
        whenCreated(this.viewer, (grid) => {
            grid.shadowRoot.adoptedStyleSheets.push(LIMIT_CELL_WIDTH);
            for (const listener of this.#gridListeners)
                listener(grid);
        });
        await this.#restore(this.#defaults);
        this.#savedDefaults = await this.#userConfig();
        const misfit = this.#saved ? await this.#arrange(this.#saved) : "";
        this.ready = true;
        this.viewer.addEventListener("perspective-config-update", () => this.#reportChanges());
        if (misfit)
            void this.#reportMisfit(misfit);
        this.#showConfig(await this.viewer.save());
        const { signal } = this.#removed;
        const showTimes = () => this.reading(async () => this.#restore(await this.viewer.save()));
        preferences.addEventListener("theme", () => this.viewer.restore({ theme: theme() }), { signal });
        preferences.addEventListener("timezone", showTimes, { signal });
    }
    /** The table is gone: free its rows. */
    async remove() {
        this.#removed.abort();
        while (this.#switching)
            await this.#switching;
        await Promise.allSettled([...this.#readers, this.#opening]);
        if (this.ready)
            await this.viewer.delete();
        await this.#current?.table.delete();
    }
    async #restore(config) {
        const times = Object.keys(this.#types).filter((name) => this.#types[name] === "datetime");
        const formats = Object.fromEntries(times.map((name) => [name, { ...config.columns_config?.[name], date_format: chartTimeFormat() }]));
        const columns_config = { ...this.#numberFormats, ...config.columns_config, ...formats };
        await this.viewer.restore({ ...config, columns_config, ...this.#binding, title: this.name, theme: theme() });
    }
    /** Show another arrangement, relative to the defaults; undefined for the defaults. */
    async arrange(saved) {
        this.#saved = saved; // a hidden viewer may open later
        await this.#opening; // the previous one may be being restored
        if (!this.ready)
            return;
        const misfit = await this.reading(() => this.#arrange(saved ?? {}));
        if (misfit)
            await this.#reportMisfit(misfit);
    }
    /** Returns what of the arrangement is not shown, or "". */
    async #arrange(saved) {
        const { config, missing } = fitConfig(saved, this.#types);
        try {
            await this.#restore({ ...this.#savedDefaults, ...config });
        }
        catch (error) {
            console.warn(`${this.name} could not be arranged as asked for`, error);
            await this.#restore(this.#savedDefaults);
            return `the arrangement of ${this.name}`;
        }
        return this.#describeMissing(missing);
    }
    #describeMissing(missing) {
        return missing.length ? `${missing.map((name) => `“${name}”`).join(", ")} in ${this.name}` : "";
    }
    /** What is shown is another arrangement than the one asked for. */
    async #reportMisfit(misfit) {
        await this.#reportChanges();
        this.#settings.onMisfit(misfit);
    }
    /** The panel was resized: a chart that is being created does not notice by itself. */
    fit() {
        if (this.ready && this.visible)
            void this.viewer.resize(true);
    }
    /** The configuration that a reset goes back to. */
    get defaults() {
        return this.#defaults;
    }
    get visible() {
        return this.viewer.offsetParent !== null; // false in a hidden tab
    }
    #showConfig(config) {
        for (const listener of this.#configListeners)
            listener(config);
    }
    async #reportChanges() {
        const config = await this.#userConfig();
        this.#showConfig(config);
        if (config.plugin_config?.["edit_mode"] === "EDIT") {
            // edited cells would look real until the next change overwrites them
            return this.viewer.restore({ plugin_config: { ...config.plugin_config, edit_mode: "SELECT_REGION" } });
        }
        const defaults = this.#savedDefaults;
        const changes = Object.entries(config).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(defaults[name]));
        this.#settings.onChange(changes.length ? Object.fromEntries(changes) : undefined);
    }
    /** The viewer's configuration without what the page sets itself. */
    async #userConfig() {
        const { table: _table, theme: _theme, title: _title, ...config } = await this.viewer.save();
        const columns = Object.entries(withoutFormats(config.columns_config ?? {}, this.#numberFormats)).map(([name, { date_format: _format, ...rest }]) => [name, rest]);
        const chosen = columns.filter(([name, rest]) => name in this.#types && Object.keys(rest).length);
        return { ...config, columns_config: Object.fromEntries(chosen) };
    }
}
/** In the order of the columns. */
async function typesOf(table) {
    const [schema, names] = await Promise.all([table.schema(), table.columns()]);
    return Object.fromEntries(names.map((name) => [name, schema[name] ?? ""]));
}
function idsOf(payload) {
    const { view, fields, batches } = readArrowStream(payload);
    const at = fields.findIndex(({ name }) => name === "_id");
    return batches.flatMap(({ length, columns }) => {
        const read = cellReader(view, columns[at], length);
        return Array.from({ length }, (_, row) => String(read(row)));
    });
}
async function applyPart(table, { kind, payload }) {
    if (kind === "upsert")
        return table.update(payload);
    const { columns } = readArrow(payload); // a remove has one column, `_id`
    return table.remove(columns[0] ?? []);
}
/** Settings of a viewer that shows all rows of a table. */
const NOTHING_CHOSEN = {
    group_by: [],
    split_by: [],
    filter: [],
    expressions: {},
    aggregates: {},
    columns_config: {},
};
/** The panel has its own title; the viewer's would be an empty line. */
const HIDE_TITLEBAR = styleSheet("regular-layout-frame::part(titlebar) { display: none !important }");
/** A cell may hold a megabyte of text: the columns after it must stay within reach. */
const LIMIT_CELL_WIDTH = styleSheet("regular-table :is(td, th) { max-width: 900px; overflow: hidden; text-overflow: ellipsis }");
/**
 * Call back with the grid before its first rows are drawn: it keeps the widths that it measures then as minimum widths.
 */
function whenCreated(viewer, created) {
    const observer = new MutationObserver(() => {
        const grid = viewer.querySelector("perspective-viewer-datagrid");
        if (!grid?.shadowRoot)
            return;
        observer.disconnect();
        created(grid);
    });
    observer.observe(viewer, { childList: true });
}
function theme() {
    return preferences.dark ? "Pro Dark" : "Pro Light";
}
