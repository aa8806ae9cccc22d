/** The Tables view: the join on top, the sources below it, livejoin's own tables in tabs, with separators between. */

import type { Generation, JoinSpec, StatusRow } from "../../protocol/api_types.js";
import type { FrameHeader } from "../../protocol/frame.js";
import { ArrangePanel } from "../arrange/arrange_panel.js";
import { byId, element, setText } from "../ui/dom.js";
import { describeChoice, formatCount, topicsOf } from "../ui/format.js";
import type { Layout, SavedLayout } from "../ui/layout.js";
import { createTabs } from "../ui/navigation.js";
import { isTyping } from "../ui/shortcuts.js";
import { Splitters } from "../ui/splitters.js";
import type { Toast } from "../ui/toast.js";
import { Folds } from "./folds.js";
import { GridTable } from "./grid_table.js";
import { GridTables } from "./grid_tables.js";
import { repeatMissedDraws } from "./missed_draws.js";
import type { Config, Engine, Viewer } from "./perspective.js";
import { arrivalSort } from "./row_order.js";
import { SourceAreas } from "./source_areas.js";
import { TablePanel } from "./table_panel.js";

export const DEFAULT_SPLIT = { final: 10, sources: 5, bottom: 4 };

const LAYOUT_MISFIT = "The rest is arranged; not here";

export class Workspace {
  readonly tables: GridTables;
  #layout: SavedLayout;
  #panels = new Map<string, TablePanel>();
  #arrangePanel: ArrangePanel;
  #lastUsed: TablePanel | null = null; // the panel of the last pointer press
  #folds: Folds;
  #splitters: Splitters;
  #showTab: (id: string) => void;
  #main = byId("view-tables");
  #areas = new SourceAreas(this.#main);
  #engine: Engine;
  #live: Generation | undefined;
  #status: StatusRow | null = null;
  #misfitIntro = LAYOUT_MISFIT;
  #misfits: string[] = []; // what of the layout is not here
  #toast: Toast;

  constructor(engine: Engine, layout: SavedLayout, toast: Toast, spec: JoinSpec) {
    this.#engine = engine;
    this.#layout = layout;
    this.#toast = toast;
    this.#arrangePanel = new ArrangePanel(toast);
    this.#areas.show(spec.sources);
    const viewers = [...this.#main.querySelectorAll<Viewer>("perspective-viewer")];
    this.tables = new GridTables(viewers.map((viewer) => this.#createTable(viewer)));
    for (const table of this.tables.byName.values()) this.#addPanel(table);
    const arrangeAreas = (folded: string[]) => this.#areas.arrange(folded);
    this.#folds = new Folds(this.#main, arrangeAreas, (folded) => {
      layout.update({ folded });
      this.#fit();
    });
    this.#folds.show(layout.current.folded);
    this.#splitters = new Splitters(this.#main, layout.current.split, (split) => layout.update({ split }));
    this.#splitters.update(this.#areas.sizes);
    this.#leaveOutUnknown();
    this.#showTab = createTabs(byId("tabs"), layout.current.tab, (tab) => {
      for (const tools of byId("tab-tools").children) (tools as HTMLElement).hidden = tools.id !== `tools-${tab.id}`;
      layout.update({ tab: tab.id });
    });
    this.#showWidened();
    repeatMissedDraws(() => this.#fit());
    document.addEventListener("keydown", (event) => {
      const copies =
        event.key === "c" &&
        (event.ctrlKey || event.metaKey) &&
        !isTyping(event) &&
        getSelection()?.isCollapsed !== false;
      if (copies && this.#lastUsed?.copySelection()) event.preventDefault();
    });
  }

  /** Other sources may be joined: tables that are gone leave, and new ones appear. */
  setSpec({ sources }: JoinSpec): void {
    const gone = this.#areas.tables.filter((name) => !sources.some(({ table }) => table === name));
    const created = this.#areas.show(sources);
    for (const name of gone) {
      this.#arrangePanel.closeFor(name);
      void this.tables.byName.get(name)?.remove();
      this.tables.byName.delete(name);
      this.#panels.delete(name);
    }
    for (const viewer of created) {
      const table = this.#createTable(viewer);
      this.tables.byName.set(table.name, table);
      this.#addPanel(table);
    }
    if (!gone.length && !created.length) return;
    this.#folds.update();
    this.#splitters.update(this.#areas.sizes);
    for (const name of gone) this.#reportMisfit(`the table ${name}`);
    if (gone.length) this.#leaveOutUnknown();
    this.#showWidened();
  }

  /** Other rows are about to be shown, perhaps with other columns and tables. */
  cutover(): void {
    this.#misfits = [];
    this.#misfitIntro = "Other sources or fields are joined now. What remains is as it was; gone";
  }

  #createTable(viewer: Viewer): GridTable {
    const name = viewer.dataset["table"] ?? "";
    const layout = this.#layout;
    const onChange = (changes: Config | undefined) => {
      const { [name]: _previous, ...others } = layout.current.tables;
      layout.update({ tables: changes ? { ...others, [name]: changes } : others });
    };
    const defaults = { plugin_config: { edit_mode: "SELECT_REGION" }, sort: arrivalSort(name, "desc") };
    const onMisfit = (what: string) => this.#reportMisfit(what);
    return new GridTable(this.#engine, viewer, { defaults, saved: layout.current.tables[name], onChange, onMisfit });
  }

  #addPanel(table: GridTable): void {
    const body = table.viewer.parentElement!;
    const layout = this.#layout;
    const panel = new TablePanel(table, body, this.#toast, {
      following: layout.current.following.includes(table.name),
      arrangePanel: this.#arrangePanel,
      onFollow: (following) => {
        const others = layout.current.following.filter((name) => name !== table.name);
        layout.update({ following: following ? [...others, table.name] : others });
      },
      onWiden: (name) => this.widen(name),
    });
    this.#panels.set(table.name, panel);
    body.addEventListener("pointerdown", () => (this.#lastUsed = panel));
    const tab = byId("tabs").querySelector<HTMLElement>(`[data-table=${table.name}]`);
    if (tab) {
      panel.tools.id = `tools-${tab.id}`;
      byId("tab-tools").append(panel.tools);
      tab.append(element("span", {}, table.name), element("span", { class: "count" }));
    } else {
      body.before(element("header", { class: "bar" }, element("h2", {}, table.name), panel.tools));
    }
  }

  /** Let a table fill the workspace, or undo that. */
  widen(name: string): void {
    this.#folds.set(this.#areaOf(name), false);
    this.#layout.update({ wide: this.#layout.current.wide === name ? "" : name });
    this.#showWidened();
  }

  /** Widen the focused table, by default the join. */
  widenFocused(): void {
    this.widen(this.#layout.current.wide || this.#focused());
  }

  /** Put the cursor into the quick filter of the focused table, by default the join. */
  filterFocused(): void {
    const name = this.#focused();
    this.#folds.set(this.#areaOf(name), false);
    this.#panels.get(name)?.focusFilter();
  }

  #focused(): string {
    const section = document.activeElement?.closest<HTMLElement>("section[data-area]");
    const viewer =
      section?.querySelector<HTMLElement>("[role=tabpanel]:not([hidden]) perspective-viewer") ??
      section?.querySelector<HTMLElement>("perspective-viewer");
    return viewer?.dataset["table"] || "final_ui";
  }

  #showWidened(): void {
    const { wide } = this.#layout.current;
    const area = this.#areaOf(wide);
    if (area) this.#main.dataset["wide"] = area;
    else delete this.#main.dataset["wide"];
    for (const section of this.#main.querySelectorAll<HTMLElement>("section[data-area]")) {
      section.toggleAttribute("data-is-wide", section.dataset["area"] === area);
    }
    for (const [name, panel] of this.#panels) panel.wide = name === wide && area !== "";
    this.#fit();
  }

  /** The area of the workspace that shows a table, or "". */
  #areaOf(name: string): string {
    const viewer = this.tables.byName.get(name)?.viewer;
    return viewer?.closest<HTMLElement>("section[data-area]")?.dataset["area"] ?? "";
  }

  #fit(): void {
    for (const table of this.tables.byName.values()) table.fit();
  }

  /** Show the layout, which is another one now. */
  async arrange(): Promise<void> {
    this.#misfits = [];
    this.#misfitIntro = LAYOUT_MISFIT;
    this.#leaveOutUnknown();
    const { folded, split, tab, following, tables } = this.#layout.current;
    this.#folds.show(folded);
    this.#splitters.show(split);
    this.#showTab(tab);
    this.#showWidened();
    for (const [name, panel] of this.#panels) panel.arranged(following.includes(name));
    await Promise.all([...this.tables.byName.values()].map((table) => table.arrange(tables[table.name])));
  }

  /** Leave out of the layout, and report, the tables that are not here, or not for this user. */
  #leaveOutUnknown(): void {
    const layout = this.#layout.current;
    const tabs = [...byId("tabs").querySelectorAll<HTMLElement>("[role=tab]")];
    const hidden = tabs.filter((tab) => tab.hidden).map((tab) => tab.dataset["table"] ?? "");
    const here = (name: string) => this.tables.byName.has(name) && !hidden.includes(name);
    const named = [...Object.keys(layout.tables), ...layout.following, layout.wide].filter(Boolean);
    const missing = new Set(named.filter((name) => !here(name)));
    const change: Partial<Layout> = {};
    if (missing.size) {
      change.tables = Object.fromEntries(Object.entries(layout.tables).filter(([name]) => here(name)));
      change.following = layout.following.filter(here);
      change.wide = missing.has(layout.wide) ? "" : layout.wide;
    }
    const tab = tabs.find(({ id }) => id === layout.tab);
    if (!tab || tab.hidden) {
      missing.add(tab?.dataset["table"] ?? `tab ${layout.tab}`);
      change.tab = tabs[0]!.id;
    }
    if (!missing.size) return;
    this.#layout.update(change);
    this.#reportMisfit([...missing].map((name) => `“${name}”`).join(", "));
  }

  /** Tables report one after another, as they are opened. */
  #reportMisfit(what: string): void {
    this.#misfits.push(what);
    this.#toast.show(`${this.#misfitIntro}: ${this.#misfits.join("; ")}.`);
  }

  setLive(generation: Generation | undefined): void {
    this.#live = generation;
  }

  setStatus(status: StatusRow): void {
    this.#status = status;
  }

  heartbeat({ tables = {}, limited = {} }: FrameHeader): void {
    for (const [name, panel] of this.#panels) {
      const rows = tables[name]?.rows;
      if (rows === undefined) continue;
      void panel.showRows(rows, limited[name]?.total, this.#emptyReason(name));
      const count = byId("tabs").querySelector(`[data-table=${name}] .count`);
      if (count) setText(count, formatCount(rows));
    }
  }

  /** Why a table is empty, and what to do about it. */
  #emptyReason(table: string): string {
    const live = this.#live;
    if (table === "control_raw")
      return "No control messages yet. Swap… writes one; so does any producer to the control topic.";
    if (table === "rejects_ui" && live) return "No rejects: every record read so far is valid.";
    if (!live)
      return `Nothing is live yet: ${this.#status?.message || "livejoin is starting"}. Swap… chooses other topics.`;
    const topic = topicsOf(live)[table.replace(/_ui$/, "")];
    if (topic) return `No records yet. Reading from ${topic}; rows appear as they are written.`;
    if (table === "final_ui")
      return `No joined rows yet: ${describeChoice(live)}. The source tables show which records were read.`;
    return "No rows yet.";
  }
}
