// @ts-check
/**
 * Replicas of the tables in the browser's own engine, each shown by a viewer that outlives every change.
 * Knows frames and grids, and nothing of what the tables mean.
 */

import { atOnce } from "./atonce.js";

/** @typedef {import("./live.js").Frame} Frame */
/** @typedef {{kind: string, payload: ArrayBuffer}} Part */

const LAYOUT = "livejoin.layout.v1";
const START = {
  orchestrator_logs: { sort: [["ts", "desc"], ["_id", "desc"]] }, // what was decided at once has one time
  control_raw: { sort: [["offset", "desc"]] },
  generations: { sort: [["generation", "desc"]] },
  rejects_ui: { sort: [["ts", "desc"]] },
};
const DARK = matchMedia("(prefers-color-scheme: dark)");

/** One table's replica and the viewer that shows it. */
class Replica {
  /** @param {any} engine @param {any} viewer */
  constructor(engine, viewer) {
    this.engine = engine;
    this.viewer = viewer;
    this.name = viewer.dataset.table;
    /** @type {any} */ this.table = null;
  }

  /** @param {Part[]} parts in their order */
  async apply(parts) {
    for (const { kind, payload } of parts) {
      if (this.table === null) await this.#open(payload);
      else if (kind === "snapshot") await this.table.replace(payload);
      else if (kind === "upsert") await this.table.update(payload);
      else await this.table.remove(await this.#ids(payload));
    }
  }

  /** @param {ArrayBuffer} payload the first snapshot */
  async #open(payload) {
    this.table = await this.engine.table(payload, { index: "_id", name: this.name });
    const columns = (await this.table.columns()).filter((/** @type {string} */ name) => !name.startsWith("_"));
    const start = { plugin: "Datagrid", settings: false, columns, ...(/** @type {any} */ (START)[this.name] ?? {}) };
    await this.viewer.load(this.engine);
    await this.viewer.restore({ ...start, ...saved()[this.name], table: this.name, title: this.name, theme: theme() });
    this.viewer.addEventListener("perspective-config-update", () => this.#save());
    DARK.addEventListener("change", () => this.viewer.restore({ theme: theme() }));
  }

  get visible() {
    return this.viewer.offsetParent !== null; // not in a hidden tab
  }

  /**
   * Remember where the grid is scrolled to: asked between the old rows and the new ones the engine says that there
   * are none, and a grid that happens to ask then goes to its top.
   * @returns {Promise<() => Promise<void>>} to draw there; left to itself each viewer waits a while, and not the same
   */
  async hold() {
    const [plugin, view] = await Promise.all([this.viewer.getPlugin(), this.viewer.getView()]);
    const grid = plugin.regular_table; // a chart has none
    const { scrollLeft, scrollTop } = grid ?? {};
    return async () => {
      await plugin.update(view);
      if (!grid || (grid.scrollLeft === scrollLeft && grid.scrollTop === scrollTop)) return;
      grid.scrollTo(scrollLeft, scrollTop);
      await plugin.update(view);
    };
  }

  async #save() {
    const { table: _table, theme: _theme, title: _title, ...layout } = await this.viewer.save();
    localStorage.setItem(LAYOUT, JSON.stringify({ ...saved(), [this.name]: layout }));
  }

  /** @param {ArrayBuffer} payload an Arrow stream of identities @returns {Promise<string[]>} */
  async #ids(payload) {
    const gone = await this.engine.table(payload);
    const { _id } = await read(gone, "to_columns");
    await gone.delete();
    return _id;
  }
}

/** All of them. Frames are applied in order, one after the other; grids that show other rows move together. */
export class Replicas {
  /** @param {any} engine @param {Iterable<Element>} viewers */
  constructor(engine, viewers) {
    /** @type {Map<string, Replica>} */ this.all = new Map();
    for (const viewer of viewers) {
      const replica = new Replica(engine, viewer);
      this.all.set(replica.name, replica);
    }
    /** @type {Promise<unknown>} */ this.queue = Promise.resolve();
  }

  get names() {
    return [...this.all.keys()];
  }

  /** @param {Frame} frame @param {() => Promise<void>} then what belongs to the same step */
  take(frame, then) {
    const step = async () => {
      await this.#apply(frame);
      await then();
    };
    this.queue = this.queue
      .then(() => (this.#moves(frame) ? atOnce(step) : step()))
      .catch((error) => console.error(error));
  }

  /** @param {Frame} frame @returns {boolean} whether it puts other rows in the place of those that are shown */
  #moves({ header }) {
    return header.parts.some(({ table, kind }) => kind === "snapshot" && this.all.get(table)?.table);
  }

  /**
   * The engine gets the parts of all tables together, and works through them before it answers any grid.
   * @param {Frame} frame
   */
  async #apply(frame) {
    /** @type {Map<string, Part[]>} */ const parts = new Map();
    for (const [i, { table, kind }] of frame.header.parts.entries()) {
      parts.set(table, [...(parts.get(table) ?? []), { kind, payload: frame.payloads[i] }]);
    }
    const all = [...parts.keys()].map((table) => this.all.get(table));
    const held = this.#moves(frame) ? all.filter((one) => one?.visible).map((one) => one?.hold()) : [];
    const draws = await Promise.all(held);
    await Promise.all(all.map((one) => one?.apply(parts.get(one.name) ?? [])));
    await Promise.all(draws.map((draw) => draw?.()));
  }

  /** @param {string} table @param {object} [config] of the engine's view @returns {Promise<any[]>} its rows */
  async rows(table, config) {
    const replica = this.all.get(table);
    return replica?.table ? read(replica.table, "to_json", config) : [];
  }
}

/** @param {any} table @param {"to_json" | "to_columns"} how @param {object} [config] */
async function read(table, how, config) {
  const view = await table.view(config);
  try {
    return await view[how]();
  } finally {
    await view.delete();
  }
}

function theme() {
  return DARK.matches ? "Pro Dark" : "Pro Light";
}

/** @returns {Record<string, object>} */
function saved() {
  try {
    return JSON.parse(localStorage.getItem(LAYOUT) ?? "{}");
  } catch {
    return {}; // somebody else's, or cut off: the start layout is better than none
  }
}
