/** The workspace: tables side by side, livejoin's own in tabs, lines between them, one of them wide if wanted. */

import { byId, make } from "../ui/dom.js";
import type { Config, Engine, Viewer } from "./perspective.js";
import type { Layouts } from "../ui/layout.js";
import { typing } from "../ui/shortcuts.js";
import type { Header } from "../../protocol/frame.js";
import { Panel } from "./table_panel.js";
import { Replica } from "./grid_table.js";
import { Replicas } from "./grid_tables.js";
import { splitters } from "../ui/splitters.js";
import { tabs } from "../ui/tabs.js";
import type { Tabs } from "../ui/tabs.js";
import type { Told } from "../ui/toast.js";
import type { Generation, Status } from "../../protocol/api_types.js";

export const SPLIT = { users: 5, accounts: 4, final: 7, top: 8, bottom: 5 };
const START: Record<string, Config> = {
  orchestrator_logs: {
    sort: [
      ["ts", "desc"],
      ["_id", "desc"],
    ],
  }, // what was decided at once has one time
  control_raw: { sort: [["offset", "desc"]] },
  generations: { sort: [["generation", "desc"]] },
  rejects_ui: { sort: [["ts", "desc"]] },
};

export class Workspace {
  readonly replicas: Replicas;
  #layouts: Layouts;
  #panels = new Map<string, Panel>();
  #used: Panel | null = null; // in which the person last pressed
  #split: (shares: Record<string, number>) => void;
  #tabs: Tabs;
  #main = byId("view-tables");
  #live: Generation | undefined;
  #status: Status | null = null;

  constructor(engine: Engine, layouts: Layouts, told: Told) {
    this.#layouts = layouts;
    const viewers = [...this.#main.querySelectorAll<Viewer>("perspective-viewer")];
    this.replicas = new Replicas(
      viewers.map((viewer) => {
        const name = viewer.dataset["table"] ?? "";
        const changed = (different: Config | undefined) => {
          const { [name]: _before, ...others } = layouts.now.tables;
          layouts.set({ tables: different ? { ...others, [name]: different } : others });
        };
        const start = { plugin_config: { edit_mode: "SELECT_REGION" }, ...START[name] };
        return new Replica(engine, viewer, { start, saved: layouts.now.tables[name], changed });
      }),
    );
    for (const replica of this.replicas.all.values()) this.#panel(replica, told);
    this.#split = splitters(this.#main, layouts.now.split, (split) => layouts.set({ split }));
    this.#tabs = tabs(byId("tabs"), layouts.now.tab, (tab) => {
      for (const tools of byId("tab-tools").children) (tools as HTMLElement).hidden = tools.id !== `tools-${tab.id}`;
      layouts.set({ tab: tab.id });
    });
    this.#widened();
    document.addEventListener("keydown", (event) => {
      const copies =
        event.key === "c" &&
        (event.ctrlKey || event.metaKey) &&
        !typing(event) &&
        getSelection()?.isCollapsed !== false;
      if (copies && this.#used?.copySelected()) event.preventDefault();
    });
  }

  #panel(replica: Replica, told: Told): void {
    const body = replica.viewer.parentElement!;
    const panel = new Panel(replica, body, told, (name) => this.widen(name));
    this.#panels.set(replica.name, panel);
    body.addEventListener("pointerdown", () => (this.#used = panel));
    const tab = byId("tabs").querySelector<HTMLElement>(`[data-table=${replica.name}]`);
    if (tab) {
      panel.tools.id = `tools-${tab.id}`;
      byId("tab-tools").append(panel.tools);
      tab.append(make("span", {}, replica.name), make("span", { class: "count" }));
    } else {
      body.before(make("header", { class: "bar" }, make("h2", {}, replica.name), panel.tools));
    }
  }

  /** Give a table all of the workspace, or take it back. */
  widen(name: string): void {
    this.#layouts.set({ wide: this.#layouts.now.wide === name ? "" : name });
    this.#widened();
  }

  /** Widen the table that has the focus, or else the join. */
  widenFocused(): void {
    const section = document.activeElement?.closest<HTMLElement>("section[data-area]");
    const viewer =
      section?.querySelector<HTMLElement>("[role=tabpanel]:not([hidden]) perspective-viewer") ??
      section?.querySelector<HTMLElement>("perspective-viewer");
    this.widen(this.#layouts.now.wide || viewer?.dataset["table"] || "final_ui");
  }

  #widened(): void {
    const { wide } = this.#layouts.now;
    const viewer = this.replicas.all.get(wide)?.viewer;
    const area = viewer?.closest<HTMLElement>("section[data-area]")?.dataset["area"] ?? "";
    if (area) this.#main.dataset["wide"] = area;
    else delete this.#main.dataset["wide"];
    for (const [name, panel] of this.#panels) panel.wide = name === wide && area !== "";
    for (const one of this.replicas.all.values()) one.fit();
  }

  async reset(): Promise<void> {
    this.#layouts.reset();
    this.#split(this.#layouts.now.split);
    this.#tabs.show(this.#layouts.now.tab);
    this.#widened();
    await Promise.all([...this.replicas.all.values()].map((one) => one.reset()));
  }

  live(generation: Generation | undefined): void {
    this.#live = generation;
  }

  status(status: Status): void {
    this.#status = status;
  }

  heartbeat({ tables = {}, limited = {} }: Header): void {
    for (const [name, panel] of this.#panels) {
      const rows = tables[name]?.rows;
      if (rows === undefined) continue;
      panel.count(rows, limited[name]?.total);
      void panel.empty(rows, this.#why(name));
      const count = byId("tabs").querySelector(`[data-table=${name}] .count`);
      if (count && count.textContent !== rows.toLocaleString("en")) count.textContent = rows.toLocaleString("en");
    }
  }

  /** Why a table is empty, and what to do about it. */
  #why(table: string): string {
    const live = this.#live;
    if (table === "control_raw")
      return "No control message has come yet. Swap… writes one, and so does anything that writes to the control topic.";
    if (table === "rejects_ui" && live) return "No rejects: every record read so far fits.";
    if (!live)
      return `Nothing is live yet: ${this.#status?.message || "livejoin is starting"}. Rows appear by themselves; Swap… names other topics.`;
    if (table === "users_ui")
      return `No records yet. Reading from ${live.usersTopic}; rows appear as they are written.`;
    if (table === "accounts_ui")
      return `No records yet. Reading from ${live.accountsTopic}; rows appear as they are written.`;
    if (table === "final_ui")
      return `No joined rows yet: ${live.usersTopic} ${live.joinType} ${live.accountsTopic}. Look at the tables beside it for what was read.`;
    return "Nothing yet.";
  }
}
