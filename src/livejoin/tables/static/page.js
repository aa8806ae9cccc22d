/** The page: passes frames from the socket to the tables, and their content to the status bar, views and swap panel. */
import { DEFAULT_SPLIT, Workspace } from "./page/grid/workspace.js";
import { HealthView } from "./page/health/health_view.js";
import { LatencyMeter } from "./page/health/latency.js";
import { SwapPanel } from "./page/swap/swap_panel.js";
import { Timeline } from "./page/timeline/timeline.js";
import { browseTopic } from "./page/topics/topic_browser.js";
import { currentUser, users } from "./page/ui/auth.js";
import { byId, setText } from "./page/ui/dom.js";
import { icon } from "./page/ui/icons.js";
import { SavedLayout } from "./page/ui/layout.js";
import { createViews } from "./page/ui/navigation.js";
import { preferences } from "./page/ui/preferences.js";
import { SavedViews } from "./page/ui/saved_views.js";
import { registerShortcuts } from "./page/ui/shortcuts.js";
import { CurrentSpec } from "./page/ui/current_spec.js";
import { StatusBar } from "./page/ui/status_bar.js";
import { Toast } from "./page/ui/toast.js";
import { UserMenu } from "./page/ui/user_menu.js";
import { ViewsMenu } from "./page/ui/views_menu.js";
import { Connection } from "./protocol/connection.js";
const OTHER_DATA_TABLES = ["final_ui", "rejects_ui"]; // besides those of the sources
const HISTORY_TABLES = ["control_raw", "generations", "orchestrator_logs"];
const EXISTING = { filter: [["state", "in", ["live", "standby", "building"]]] };
const OPERATOR_TABLES = ["audit"];
const OTHER_TABLES = [...document.querySelectorAll("perspective-viewer")].map((viewer) => viewer.dataset["table"] ?? "");
// --- available before the engine is loaded
const DEFAULT_LAYOUT = {
    view: "tables",
    tab: "tab-logs",
    wide: "",
    folded: [],
    following: [],
    split: DEFAULT_SPLIT,
    tables: {},
};
const savedViews = new SavedViews(DEFAULT_LAYOUT);
const layout = new SavedLayout(DEFAULT_LAYOUT, (named) => savedViews.has(named));
const toast = new Toast(byId("toast"));
const userMenu = new UserMenu(toast);
const viewsMenu = new ViewsMenu(layout, savedViews, toast);
const swapPanel = new SwapPanel();
const statusBar = new StatusBar((since) => {
    swapPanel.setStale(since);
    timeline?.setStale(since);
    health?.setStale(since);
});
let workspace = null;
const spec = new CurrentSpec((changed) => {
    swapPanel.setSpec(changed);
    workspace?.setSpec(changed);
    subscribe();
});
let timeline = null;
let health = null;
let generations = [];
let paused = false;
let role = ""; // of the user for whom the page is set up
const early = []; // frames received before the engine was loaded
let receive = (frame) => void early.push(frame);
const listener = {
    frame: (frame) => receive(frame),
    statusChanged: showConnection,
    mismatch: (resubscribed) => {
        health?.setMismatches(connection.mismatches);
        if (resubscribed)
            toast.show("Rows differed from the server's. Loading them again.");
    },
    serverError: (message) => statusBar.showError(message),
};
// an error may be due to a page that the browser had suspended: it subscribed too late
const connection = new Connection(new URL(".", location.href), listener, { retryErrors: true, wait: true });
showUser();
users.addEventListener("user", showUser);
const showView = createViews(layout, { timeline: () => timeline?.draw(), health: () => health?.draw() });
function showConnection() {
    if (connection.state === "following")
        return statusBar.connected();
    if (connection.state === "refused")
        return statusBar.refused(connection.reason);
    statusBar.disconnected();
    dispatchEvent(new Event("livejoin-disconnected")); // the session may have ended
}
/** Set the page up for the user who is signed in; another one may have signed in on the open page. */
function showUser() {
    const user = currentUser();
    if (!user)
        return; // signed out: the sign-in covers the page
    if (role === "operator" && user.role !== "operator")
        return location.reload(); // without the rows of the audit
    role = user.role;
    userMenu.setUser(user);
    swapPanel.setUser(user);
    for (const table of OPERATOR_TABLES) {
        document.querySelector(`[role=tab][data-table=${table}]`).hidden = role !== "operator";
    }
    subscribe();
    void spec.read();
}
/** Follow the tables that the user has a right to, and while paused none with data. */
function subscribe() {
    if (connection.state === "refused" || !spec.current)
        return;
    const sources = spec.current.sources.map(({ table }) => table);
    const dataTables = [...sources, ...OTHER_DATA_TABLES];
    const hidden = [...(paused ? dataTables : []), ...(role === "operator" ? [] : OPERATOR_TABLES)];
    connection.subscribe([...OTHER_TABLES, ...sources].filter((table) => !hidden.includes(table)));
}
/** While paused the server sends no data tables; afterwards they come as snapshots into the same grids. */
function togglePause() {
    paused = !paused;
    subscribe();
    statusBar.paused(paused ? Date.now() : 0);
    const button = byId("pause");
    button.replaceChildren(icon(paused ? "resume" : "pause"), paused ? "Resume" : "Pause");
    button.setAttribute("aria-pressed", String(paused));
}
function showPreferences() {
    byId("theme").replaceChildren(icon(preferences.theme));
    byId("theme").title = `Colours: ${preferences.theme} (t)`;
    setText(byId("timezone"), preferences.utc ? "UTC" : "Local");
}
/** Another layout was opened: a saved view, that of a link, or the default. */
function showLayout() {
    showView(layout.current.view);
    if (workspace)
        toast.showFailure("The tables could not be arranged", workspace.arrange());
}
byId("pause").append(icon("pause"), "Pause");
byId("change").prepend(icon("swap"));
byId("reset").append(icon("reset"));
byId("help-open").append(icon("help"));
byId("pause").addEventListener("click", togglePause);
byId("reset").addEventListener("click", () => {
    layout.reset();
    toast.show("The layout was reset.");
});
layout.addEventListener("open", showLayout);
byId("theme").addEventListener("click", () => preferences.nextTheme());
byId("timezone").addEventListener("click", () => preferences.toggleUtc());
preferences.addEventListener("theme", showPreferences);
preferences.addEventListener("timezone", () => {
    showPreferences();
    timeline?.refresh();
});
showPreferences();
document.body.dataset["ready"] = ""; // it was hidden until here: nothing of it is empty
registerShortcuts([
    { key: "1", description: "tables", action: () => showView("tables") },
    { key: "2", description: "timeline", action: () => showView("timeline") },
    { key: "3", description: "health", action: () => showView("health") },
    { key: "s", description: "open or close the swap panel", action: () => swapPanel.toggle() },
    { key: "b", description: "browse the records of topics", action: () => browseTopic() },
    { key: "p", description: "pause or resume", action: togglePause },
    { key: "w", description: "widen the focused table", action: () => workspace?.widenFocused() },
    { key: "v", description: "open the menu of saved views", action: () => viewsMenu.open() },
    { key: "/", description: "filter the focused table", action: () => workspace?.filterFocused() },
    { key: "t", description: "light, dark or the system's colours", action: () => preferences.nextTheme() },
    { key: "u", description: "local time or UTC", action: () => preferences.toggleUtc() },
]);
// --- tables
/** Its grids write numbers in this language. The page is in English, and its filters read numbers as they are written. */
const LANGUAGES = { value: ["en"] };
async function loadEngine() {
    Object.defineProperty(navigator, "languages", LANGUAGES);
    const { ready, worker } = await import("../engine/perspective-anywidget.js"); // 6 MB: nothing above waits for it
    return Promise.all([worker(), ready]);
}
const [engine] = await loadEngine().catch((error) => {
    statusBar.showError(`The tables cannot be shown: ${String(error)}. Reload the page, or use another browser.`);
    throw error;
});
const grids = (workspace = new Workspace(engine, layout, toast, await spec.first));
const { tables } = grids;
const history = (timeline = new Timeline(tables));
const healthView = (health = new HealthView(tables));
const latency = new LatencyMeter(healthView.latency.histogram);
/** A frame is in the tables: have it verified, and update everything that shows its content. */
async function frameApplied(frame) {
    const { header, parts } = frame;
    latency.frameApplied(frame);
    connection.applied(frame, header.type === "heartbeat" ? await tables.rowCounts() : {});
    const changed = new Set(parts.map(({ table }) => table));
    if (changed.has("generations")) {
        generations = await tables.rows("generations", EXISTING);
        swapPanel.setGenerations(generations);
    }
    if (!paused)
        statusBar.showGeneration(header.generation, generations);
    const live = generations.find(({ generation }) => generation === header.generation);
    grids.setLive(live);
    if (changed.has("orchestrator_status")) {
        const [row] = await tables.rows("orchestrator_status");
        if (row)
            for (const part of [statusBar, swapPanel, grids])
                part.setStatus(row);
    }
    const pending = swapPanel.pendingPosition;
    if (changed.has("control_raw") && pending) {
        const { partition, offset } = pending;
        const filter = { filter: [["partition", "==", partition], ["offset", "==", offset]] };
        const [row] = await tables.rows("control_raw", filter);
        swapPanel.updatePending(row);
    }
    if (changed.has("rejects_ui"))
        healthView.rejectsChanged();
    if (changed.has("orchestrator_logs"))
        await healthView.logsChanged();
    if (HISTORY_TABLES.some((table) => changed.has(table)))
        history.refresh();
}
receive = (frame) => {
    const { header, parts } = frame;
    latency.frameReceived(frame);
    if (header.type === "cutover") {
        grids.cutover();
        void spec.read();
    }
    if (header.type === "heartbeat")
        for (const part of [statusBar, grids, healthView])
            part.heartbeat(header);
    tables.enqueue(parts, () => frameApplied(frame));
};
early.forEach((frame) => receive(frame));
