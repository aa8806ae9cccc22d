// @ts-check
/** The page: frames from the socket go to the replicas, and what they tell to the strip, the tabs and the form. */

// @ts-ignore: comes out of the installed wheel
import { ready, worker } from "../engine/perspective-anywidget.js";
import { Control } from "./control.js";
import { subscribe } from "./live.js";
import { Replicas } from "./replica.js";
import { Strip } from "./strip.js";
import { tabs } from "./tabs.js";

/** @typedef {import("./live.js").Frame} Frame */
/** @typedef {import("./live.js").Header} Header */

const DATA = ["users_ui", "accounts_ui", "final_ui", "rejects_ui"];
const STATUS = "orchestrator_status";
const GENERATIONS = "generations";
const CONTROL = "control_raw";
const EXIST = {
  columns: ["generation", "usersTopic", "accountsTopic", "joinType", "state"],
  filter: [["state", "in", ["live", "standby", "building"]]],
};

const strip = new Strip();
const control = new Control();
const counts = tabs(/** @type {HTMLElement} */ (document.getElementById("tabs")));
await ready;
const replicas = new Replicas(await worker(), document.querySelectorAll("perspective-viewer"));
/** @type {import("./words.js").Generation[]} */
let generations = [];

/**
 * A server that has just come back shows nothing yet. The rows that are here stay until it does.
 * @param {Frame} frame @returns {Frame}
 */
function keeping(frame) {
  const { header, payloads } = frame;
  if (header.generation !== null || !strip.shown) return frame;
  const rest = [...header.parts.keys()].filter((i) => !DATA.includes(header.parts[i].table));
  return { header: { ...header, parts: rest.map((i) => header.parts[i]) }, payloads: rest.map((i) => payloads[i]) };
}

/** @param {Header} header of a frame that has been applied */
async function tell(header) {
  const changed = new Set(header.parts.map(({ table }) => table));
  if (changed.has(GENERATIONS)) {
    generations = await replicas.rows(GENERATIONS, EXIST);
    control.generations(generations);
  }
  strip.shows(header.generation, generations);
  if (changed.has(STATUS)) {
    const [row] = await replicas.rows(STATUS);
    if (row) strip.status(row);
  }
  const offset = control.followed;
  if (changed.has(CONTROL) && offset !== null) {
    const [row] = await replicas.rows(CONTROL, { filter: [["offset", "==", offset]] });
    control.became(row);
  }
}

const address = new URL("api/v1/live", location.href);
address.protocol = address.protocol.replace("http", "ws");
subscribe(address.href, replicas.names, {
  connected: (yes) => strip.connected(yes),
  frame(frame) {
    const { header } = frame;
    if (header.type === "error") strip.error(header.message ?? "");
    if (header.type === "heartbeat") {
      strip.heartbeat(header);
      counts.count(header.tables ?? {});
    }
    replicas.take(keeping(frame), () => tell(header));
  },
});
