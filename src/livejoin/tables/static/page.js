/** The page: frames from the socket go to the replicas, and what they tell to the strip, the views and the swap panel. */
import { Checker } from "./protocol/verification.js";
import { Control } from "./page/swap/swap_panel.js";
import { byId, put } from "./page/ui/dom.js";
import { Health } from "./page/health/health.js";
import { icon } from "./page/ui/icons.js";
import { keys } from "./page/ui/shortcuts.js";
import { Latency } from "./page/health/latency.js";
import { Layouts } from "./page/ui/layout.js";
import { Subscription } from "./protocol/frame.js";
import { prefs } from "./page/ui/preferences.js";
import { person } from "./page/ui/signed_in_user.js";
import { Strip } from "./page/ui/status_bar.js";
import { Told } from "./page/ui/toast.js";
import { Timeline } from "./page/timeline/timeline.js";
import { views } from "./page/ui/views.js";
import { SPLIT, Workspace } from "./page/grid/workspace.js";
const DATA = ["users_ui", "accounts_ui", "final_ui", "rejects_ui"];
const HISTORY = ["control_raw", "generations", "orchestrator_logs"];
const EXIST = { filter: [["state", "in", ["live", "standby", "building"]]] };
const TABLES = [...document.querySelectorAll("perspective-viewer")].map((viewer) => viewer.dataset["table"] ?? "");
// --- what works while the engine is still being loaded
const layouts = new Layouts({ view: "tables", tab: "tab-logs", wide: "", split: SPLIT, tables: {} });
const told = new Told(byId("toast"));
const strip = new Strip();
const control = new Control();
let workspace = null;
let timeline = null;
let health = null;
let generations = [];
let paused = false;
const waiting = [];
let take = (frame) => void waiting.push(frame);
const address = new URL("api/v1/live", location.href);
address.protocol = address.protocol.replace("http", "ws");
address.hash = "";
const subscription = new Subscription(address.href, TABLES, {
    connected: () => strip.connected(),
    lost: (_why, againAt) => strip.lost(againAt),
    refused: (why) => strip.refused(why),
    frame: (frame) => take(frame),
});
const show = views(layouts, { timeline: () => timeline?.draw(), health: () => health?.draw() });
const signedIn = person();
if (signedIn)
    control.person(signedIn); // the page starts once somebody is
function subscribe() {
    subscription.change(paused ? TABLES.filter((table) => !DATA.includes(table)) : TABLES);
}
/** While rows are held the server does not send them; afterwards they come afresh, into the same grids. */
function pause() {
    paused = !paused;
    subscribe();
    strip.paused(paused ? Date.now() : 0);
    const button = byId("pause");
    button.replaceChildren(icon(paused ? "resume" : "pause"), paused ? "Resume" : "Pause");
    button.setAttribute("aria-pressed", String(paused));
}
function showPrefs() {
    byId("theme").replaceChildren(icon(prefs.theme));
    byId("theme").title = `Colours: ${prefs.theme} (t)`;
    put(byId("times"), prefs.utc ? "UTC" : "Local");
}
function reset() {
    if (!workspace)
        return;
    told.trying("The layout could not be reset", workspace.reset().then(() => told.say("The layout is as it was at first.")));
    show("tables");
}
byId("pause").append(icon("pause"), "Pause");
byId("change").prepend(icon("swap"));
byId("reset").append(icon("reset"));
byId("help-open").append(icon("help"));
byId("pause").addEventListener("click", pause);
byId("reset").addEventListener("click", reset);
byId("theme").addEventListener("click", () => prefs.nextTheme());
byId("times").addEventListener("click", () => prefs.toggleUtc());
prefs.addEventListener("theme", showPrefs);
prefs.addEventListener("times", () => {
    showPrefs();
    timeline?.changed();
});
showPrefs();
keys([
    { key: "1", does: "tables", do: () => show("tables") },
    { key: "2", does: "timeline", do: () => show("timeline") },
    { key: "3", does: "health", do: () => show("health") },
    { key: "s", does: "open or close the swap panel", do: () => control.toggle() },
    { key: "p", does: "pause or resume", do: pause },
    { key: "w", does: "widen the table that has the focus", do: () => workspace?.widenFocused() },
    { key: "t", does: "light, dark or as the system has it", do: () => prefs.nextTheme() },
    { key: "u", does: "local time or UTC", do: () => prefs.toggleUtc() },
]);
// --- rows
async function load() {
    const { ready, worker } = await import("../engine/perspective-anywidget.js"); // six megabytes: nobody waits for it above
    return Promise.all([worker(), ready]);
}
const [engine] = await load().catch((error) => {
    strip.error(`The grids cannot be drawn: ${String(error)}. Load the page again, or use another browser.`);
    throw error;
});
const grids = (workspace = new Workspace(engine, layouts, told));
const { replicas } = grids;
const past = (timeline = new Timeline(replicas));
const fares = (health = new Health(replicas));
const latency = new Latency(fares.latency);
const checker = new Checker((afresh) => {
    fares.mismatches(checker.mismatches);
    if (!afresh)
        return;
    told.say("Rows here were not those of the server. They are taken afresh.");
    subscribe();
});
/** A server that has just come back shows nothing yet, and rows that are held stay: other parts are left. */
function keeping(frame) {
    const { header, payloads } = frame;
    if (!paused && (header.generation !== null || !strip.shown))
        return frame;
    const rest = [...header.parts.keys()].filter((i) => !DATA.includes(header.parts[i].table));
    return { header: { ...header, parts: rest.map((i) => header.parts[i]) }, payloads: rest.map((i) => payloads[i]) };
}
/** A frame has been applied. Of a heartbeat these tables are checked. */
async function tell(frame, settled) {
    const { header, payloads } = frame;
    latency.applied(frame);
    for (const [i, { table, kind }] of header.parts.entries())
        checker.take(table, kind, payloads[i]);
    if (header.type === "heartbeat")
        await check(header, settled);
    const changed = new Set(header.parts.map(({ table }) => table));
    if (changed.has("generations")) {
        generations = await replicas.rows("generations", EXIST);
        control.generations(generations);
    }
    if (!paused)
        strip.shows(header.generation, generations);
    const live = generations.find(({ generation }) => generation === header.generation);
    grids.live(live);
    fares.live(live);
    if (changed.has("orchestrator_status")) {
        const [row] = await replicas.rows("orchestrator_status");
        if (row)
            for (const one of [strip, control, grids])
                one.status(row);
    }
    if (changed.has("control_raw") && control.followed !== null) {
        const [row] = await replicas.rows("control_raw", { filter: [["offset", "==", control.followed]] });
        control.became(row);
    }
    if (changed.has("rejects_ui"))
        fares.rejectsChanged();
    if (HISTORY.some((table) => changed.has(table)))
        past.changed();
}
/** While nothing is live the server has no rows, and those that are here stay. */
async function check({ generation, tables = {} }, settled) {
    const checked = settled.filter((table) => tables[table] && (generation !== null || !DATA.includes(table)));
    checker.expect(Object.fromEntries(checked.map((table) => [table, tables[table]])), await replicas.sizes());
}
function beat(header) {
    strip.heartbeat(header);
    grids.heartbeat(header);
    fares.heartbeat(header);
}
take = (frame) => {
    const { header } = frame;
    latency.arrived(frame);
    if (header.type === "error")
        strip.error(header.message ?? "");
    if (header.type === "heartbeat")
        beat(header);
    const kept = keeping(frame);
    const { settled } = subscription;
    replicas.take(kept, () => tell(kept, settled));
};
waiting.forEach(take);
