// @ts-check
/** The status strip: what is shown, what is going on, how fresh it is. Quiet, unless something moves. */

import { choice, newestOf } from "./words.js";

/** @typedef {import("./live.js").Header} Header */
/** @typedef {import("./words.js").Generation} Generation */

/** @param {string} id @returns {HTMLElement} */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {string} id @param {string} text */
function put(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
  if (id === "choice" || id === "message") element.title = text; // it may be cut
}

/** @param {number} seconds */
function age(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

export class Strip {
  /** @type {any} */ #status = {};
  #stale = "";
  #limited = "";
  #gone = false;
  /** @type {number | null | undefined} */ #shown = undefined;

  /** The generation whose rows are on the page. */
  get shown() {
    return this.#shown;
  }

  /** @param {boolean} yes */
  connected(yes) {
    byId("connection").dataset.connected = String(yes);
    put("connection", yes ? "connected" : "reconnecting");
  }

  /** @param {any} row of orchestrator_status */
  status(row) {
    const building = row.state === "building";
    const progress = /** @type {HTMLProgressElement} */ (byId("progress"));
    this.#status = row;
    byId("strip").dataset.state = row.state;
    put("state", building ? `building ${row.progress} %` : row.state);
    progress.value = Number(row.progress);
    progress.hidden = !building;
    document.title = `livejoin: ${row.state}`;
    this.#message();
  }

  /** @param {Header} header a heartbeat */
  heartbeat({ newest, at, stale, tables, limited }) {
    put("freshness", newest ? `newest ${age((at - newest) / 1000)} ago` : "");
    this.#stale = stale ?? "";
    this.#limited = Object.entries(limited ?? {})
      .map(([table, { total }]) => newestOf(table, tables?.[table]?.rows ?? 0, total))
      .join("; ");
    this.#message();
  }

  /** @param {string} message why the socket was closed */
  error(message) {
    put("message", message);
  }

  #message() {
    const why = this.#stale || (this.#gone ? "the last rows are shown until something is live again" : "");
    const said = why ? `stale: ${why}` : (this.#status.message ?? "");
    put("message", [said, this.#limited].filter(Boolean).join(" · "));
  }

  /**
   * Which generation livejoin shows, or none. It is said when it is another one than before.
   * @param {number | null} number
   * @param {Generation[]} generations
   */
  shows(number, generations) {
    this.#gone = number === null && Boolean(this.#shown);
    this.#message();
    if (this.#gone) return;
    const row = generations.find(({ generation }) => generation === number);
    const badge = byId("generation");
    const known = number === this.#shown ? (byId("choice").textContent ?? "") : ""; // it may have been retired since
    const what = row ? choice(row) : known;
    badge.hidden = number === null;
    put("generation", number === null ? "" : `generation ${number}`);
    put("choice", what);
    if (this.#shown !== undefined && number !== this.#shown) {
      put("said", `now showing generation ${number}${what && `: ${what}`}`);
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
        const lit = { background: "var(--main)", color: "var(--on-main)" };
        badge.animate([lit, { ...lit, offset: 0.4 }, {}], { duration: 1800, easing: "ease-out" });
      }
    }
    this.#shown = number;
  }
}
