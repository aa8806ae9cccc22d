// @ts-check
/** The page: a replica of each table in the browser's own engine, shown by viewers that outlive every change. */

// @ts-ignore: comes out of the installed wheel
import { ready, worker } from "../engine/perspective-anywidget.js";
import { subscribe } from "./live.js";

/** @typedef {import("./live.js").Frame} Frame */

const LAYOUT = "livejoin.layout.v1";
const STATUS = "orchestrator_status";
const START = { orchestrator_logs: { sort: [["ts", "desc"]] }, rejects_ui: { sort: [["ts", "desc"]] } };

/** @param {string} id @returns {HTMLElement} */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** One table's replica and the viewer that shows it. Work on it happens in order, one thing after the other. */
class Replica {
  /** @param {any} engine @param {any} viewer */
  constructor(engine, viewer) {
    this.engine = engine;
    this.viewer = viewer;
    this.name = viewer.dataset.table;
    /** @type {any} */ this.table = null;
    /** @type {any} */ this.view = null;
    /** @type {Promise<unknown>} */ this.queue = Promise.resolve();
  }

  /** @param {string} kind @param {ArrayBuffer} payload */
  apply(kind, payload) {
    this.queue = this.queue.then(() => this.#apply(kind, payload)).catch((error) => console.error(this.name, error));
    return this.queue;
  }

  /** @param {string} kind @param {ArrayBuffer} payload */
  async #apply(kind, payload) {
    if (this.table === null) await this.#open(payload);
    else if (kind === "snapshot") await this.table.replace(payload);
    else if (kind === "upsert") await this.table.update(payload);
    else await this.table.remove(await this.#ids(payload));
  }

  /** @param {ArrayBuffer} payload the first snapshot */
  async #open(payload) {
    this.table = await this.engine.table(payload, { index: "_id", name: this.name });
    this.view = await this.table.view();
    const columns = (await this.table.columns()).filter((/** @type {string} */ name) => !name.startsWith("_"));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = dark ? "Pro Dark" : "Pro Light";
    const start = { plugin: "Datagrid", settings: false, columns, ...(/** @type {any} */ (START)[this.name] ?? {}) };
    await this.viewer.load(this.engine);
    await this.viewer.restore({ ...start, ...saved()[this.name], table: this.name, title: this.name, theme });
    this.viewer.addEventListener("perspective-config-update", () => this.#save());
  }

  async #save() {
    const { table: _table, theme: _theme, title: _title, ...layout } = await this.viewer.save();
    localStorage.setItem(LAYOUT, JSON.stringify({ ...saved(), [this.name]: layout }));
  }

  /** @param {ArrayBuffer} payload an Arrow stream of identities @returns {Promise<string[]>} */
  async #ids(payload) {
    const gone = await this.engine.table(payload);
    const view = await gone.view();
    const { _id } = await view.to_columns();
    await view.delete();
    await gone.delete();
    return _id;
  }
}

/** @returns {Record<string, object>} */
function saved() {
  try {
    return JSON.parse(localStorage.getItem(LAYOUT) ?? "{}");
  } catch {
    return {}; // somebody else's, or cut off: the start layout is better than none
  }
}

/** @param {any} row of orchestrator_status */
function showStatus(row) {
  byId("strip").dataset.state = row.state;
  byId("state").textContent = row.state === "building" ? `building ${row.progress} %` : row.state;
  byId("choice").textContent = row.usersTopic ? `${row.usersTopic} ${row.joinType} ${row.accountsTopic}` : "";
  byId("message").textContent = row.message ?? "";
  document.title = `livejoin: ${row.state}`;
}

/** @param {import("./live.js").Header} header a heartbeat */
function showHeartbeat(header) {
  const age = header.newest ? (header.at - header.newest) / 1000 : null;
  const text = age === null ? "" : age < 60 ? `${age.toFixed(1)} s` : `${Math.round(age / 60)} min`;
  byId("freshness").textContent = text && `newest record ${text} ago`;
  if (header.stale) byId("message").textContent = `stale: ${header.stale}`;
}

await ready;
const engine = await worker();
/** @type {Map<string, Replica>} */
const replicas = new Map();
for (const viewer of document.querySelectorAll("perspective-viewer")) {
  const replica = new Replica(engine, viewer);
  replicas.set(replica.name, replica);
}

const address = new URL("api/v1/live", location.href);
address.protocol = address.protocol.replace("http", "ws");
subscribe(address.href, [...replicas.keys()], {
  connected(yes) {
    byId("connection").dataset.connected = String(yes);
    byId("connection").textContent = yes ? "connected" : "reconnecting";
  },
  async frame({ header, payloads }) {
    if (header.type === "error") byId("message").textContent = header.message ?? "";
    if (header.type === "heartbeat") showHeartbeat(header);
    const work = header.parts.map(({ table, kind }, i) => replicas.get(table)?.apply(kind, payloads[i]));
    if (header.parts.some(({ table }) => table === STATUS)) {
      await Promise.all(work);
      showStatus((await replicas.get(STATUS)?.view.to_json())[0]);
    }
  },
});
