/**
 * Replicas of the tables in the browser's own engine, each shown by a viewer that outlives every change.
 * Knows frames and grids, and nothing of what the tables mean.
 */
import { atOnce } from "./atonce.js";
import { prefs } from "./prefs.js";
import { gridFormat } from "./times.js";
const HIDDEN_MS = 500; // what is not in sight waits until that which is has been drawn
/** One table's replica and the viewer that shows it. */
export class Replica {
    name;
    viewer;
    table = null;
    ready = false; // the viewer can be asked and told
    #engine;
    #arrangement;
    #times = [];
    #shown;
    #start = {};
    #before = {}; // the start, as the viewer tells it
    constructor(engine, viewer, arrangement) {
        this.#engine = engine;
        this.viewer = viewer;
        this.name = viewer.dataset["table"] ?? "";
        this.#arrangement = arrangement;
    }
    async apply(parts) {
        for (const { kind, payload } of parts) {
            if (this.table === null)
                await this.#open(payload);
            else if (kind === "snapshot")
                await this.table.replace(payload);
            else if (kind === "upsert")
                await this.table.update(payload);
            else
                await this.table.remove(await this.#ids(payload));
        }
    }
    async #open(snapshot) {
        this.table = await this.#engine.table(snapshot, { index: "_id", name: this.name });
        const schema = await this.table.schema();
        this.#times = Object.keys(schema).filter((name) => schema[name] === "datetime");
        const columns = (await this.table.columns()).filter((name) => !name.startsWith("_"));
        this.#start = { plugin: "Datagrid", settings: false, columns, ...this.#arrangement.start };
        if (this.visible)
            await (this.#shown = this.#show());
        else
            setTimeout(() => (this.#shown = this.#show()), HIDDEN_MS);
    }
    async #show() {
        await this.viewer.load(this.#engine);
        this.viewer.shadowRoot?.adoptedStyleSheets.push(bare());
        await this.#restore(this.#start);
        this.#before = await this.#config();
        if (this.#arrangement.saved)
            await this.#restore({ ...this.#start, ...this.#arrangement.saved });
        this.ready = true;
        this.viewer.addEventListener("perspective-config-update", () => this.#save());
        prefs.addEventListener("theme", () => this.viewer.restore({ theme: theme() }));
        prefs.addEventListener("times", async () => this.#restore(await this.viewer.save()));
    }
    async #restore(config) {
        const formats = Object.fromEntries(this.#times.map((name) => [name, { ...config.columns_config?.[name], date_format: gridFormat() }]));
        const columns_config = { ...config.columns_config, ...formats };
        await this.viewer.restore({ ...config, columns_config, table: this.name, title: this.name, theme: theme() });
    }
    /** As for somebody new. */
    async reset() {
        await this.#shown; // a saved layout may be on its way into the viewer
        if (this.ready)
            await this.#restore(this.#before);
    }
    /** The room for it is another one: a chart that is just being made does not notice by itself. */
    fit() {
        if (this.ready && this.visible)
            void this.viewer.resize(true);
    }
    get visible() {
        return this.viewer.offsetParent !== null; // not in a hidden tab
    }
    /**
     * Remember where the grid is scrolled to: asked between the old rows and the new ones the engine says that there
     * are none, and a grid that happens to ask then goes to its top. What is returned draws there; left to itself each
     * viewer waits a while, and not the same.
     */
    async hold() {
        const [plugin, view] = await Promise.all([this.viewer.getPlugin(), this.viewer.getView()]);
        const grid = plugin.regular_table; // a chart has none
        const { scrollLeft = 0, scrollTop = 0 } = grid ?? {};
        return async () => {
            await plugin.update(view);
            if (!grid || (grid.scrollLeft === scrollLeft && grid.scrollTop === scrollTop))
                return;
            grid.scrollTo(scrollLeft, scrollTop);
            await plugin.update(view);
        };
    }
    async #save() {
        const config = await this.#config();
        if (config.plugin_config?.["edit_mode"] === "EDIT") {
            // cells that somebody changes here would be lost with the next change, and seem true until then
            return this.viewer.restore({ plugin_config: { ...config.plugin_config, edit_mode: "SELECT_REGION" } });
        }
        const before = this.#before;
        const other = Object.entries(config).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
        this.#arrangement.changed(other.length ? Object.fromEntries(other) : undefined);
    }
    /** What a person can arrange: not what the page decides itself. */
    async #config() {
        const { table: _table, theme: _theme, title: _title, ...config } = await this.viewer.save();
        const columns = Object.entries(config.columns_config ?? {}).map(([name, { date_format: _format, ...rest }]) => [name, rest]);
        return { ...config, columns_config: Object.fromEntries(columns.filter(([, rest]) => Object.keys(rest).length)) };
    }
    /** The identities in an Arrow stream of them. */
    async #ids(payload) {
        const gone = await this.#engine.table(payload);
        const { _id } = await read(gone, (view) => view.to_columns());
        await gone.delete();
        return _id ?? [];
    }
}
/** All of them. Frames are applied in order, one after the other; grids that show other rows move together. */
export class Replicas {
    all;
    #queue = Promise.resolve();
    constructor(replicas) {
        this.all = new Map([...replicas].map((one) => [one.name, one]));
    }
    get names() {
        return [...this.all.keys()];
    }
    /** `then` belongs to the same step. */
    take(frame, then) {
        const step = async () => {
            await this.#apply(frame);
            await then();
        };
        this.#queue = this.#queue
            .then(() => (this.#moves(frame) ? atOnce(step) : step()))
            .catch((error) => console.error(error));
    }
    /** Whether a frame puts other rows in the place of those that are shown. */
    #moves({ header }) {
        return header.parts.some(({ table, kind }) => kind === "snapshot" && this.all.get(table)?.table);
    }
    /** The engine gets the parts of all tables together, and works through them before it answers any grid. */
    async #apply(frame) {
        const parts = new Map();
        for (const [i, { table, kind }] of frame.header.parts.entries()) {
            const replica = this.all.get(table);
            if (replica)
                parts.set(replica, [...(parts.get(replica) ?? []), { kind, payload: frame.payloads[i] }]);
        }
        const shown = [...parts.keys()].filter((one) => one.ready && one.visible);
        const draws = this.#moves(frame) ? await Promise.all(shown.map((one) => one.hold())) : [];
        await Promise.all([...parts].map(([one, some]) => one.apply(some)));
        await Promise.all(draws.map((draw) => draw()));
    }
    /** A table's rows; `config` is the engine's, of a view. */
    async rows(table, config) {
        const replica = this.all.get(table);
        return replica?.table ? read(replica.table, (view) => view.to_json(), config) : [];
    }
}
async function read(table, how, config) {
    const view = await table.view(config);
    try {
        return await how(view);
    }
    finally {
        await view.delete();
    }
}
/** The panel around has a title of its own; the viewer's would be an empty line. */
function bare() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("regular-layout-frame::part(titlebar) { display: none !important }");
    return sheet;
}
function theme() {
    return prefs.dark ? "Pro Dark" : "Pro Light";
}
