/**
 * A table's replica in the browser's own engine, shown by a viewer that outlives every change.
 * Rows that begin anew become an engine table of their own, which then takes the place of the one that is shown: once
 * `replace` has been called, or rows have come into a table that never had any, the engine sorts nulls wrongly and
 * loses rows of filtered views (decision 20). Knows grids, and nothing of what the tables mean.
 */

import { readArrow } from "../../protocol/arrow.js";
import type { Config, Engine, EngineTable, View, Viewer } from "./perspective.js";
import type { Kind } from "../../protocol/frame.js";
import { prefs } from "../ui/preferences.js";
import { gridFormat } from "../ui/time_format.js";

const CHART_MS = 10_000; // a chart reads its table in a worker of its own, and does not say when it is through
const HIDDEN_MS = 500; // what is not in sight waits until that which is has been drawn

export type Part = { kind: Kind; payload: ArrayBuffer };

/** An engine table, and what the engine calls it. */
type Named = { table: EngineTable; name: string };

/** What a viewer starts with, and who is told when a person changes it. */
export type Arrangement = {
  start: Config;
  saved: Config | undefined;
  changed: (different: Config | undefined) => void; // from the start
};

export class Replica {
  readonly name: string;
  readonly viewer: Viewer;
  ready = false; // the viewer can be asked and told
  #engine: Engine;
  #arrangement: Arrangement;
  #table: Named | null = null;
  #made: Named | null = null; // takes its place
  #count = 0; // of the tables made so far: a name cannot be used again while the viewer has the table
  #vacant = true; // no row has ever been in the newest of them
  #turning: Promise<void> | null = null;
  #readers = new Set<Promise<unknown>>();
  #times: string[] = [];
  #shown: Promise<void> | undefined;
  #start: Config = {};
  #before: Config = {}; // the start, as the viewer tells it

  constructor(engine: Engine, viewer: Viewer, arrangement: Arrangement) {
    this.#engine = engine;
    this.viewer = viewer;
    this.name = viewer.dataset["table"] ?? "";
    this.#arrangement = arrangement;
  }

  /** Make a table beside the one that is shown, if these parts begin anew. Whether another one will be shown. */
  async make(parts: Part[]): Promise<boolean> {
    for (const part of parts) {
      const begins = part.kind === "snapshot" || (part.kind === "upsert" && this.#vacant);
      if (!begins && this.#made) await change(this.#made.table, part);
      if (!begins) continue;
      const unused = this.#made;
      this.#made = null; // if the next one cannot be made, one that is deleted must not be shown
      await unused?.table.delete();
      const name = `${this.name} ${(this.#count += 1)}`;
      const table = await this.#engine.table(part.payload, { index: "_id", name });
      this.#made = { table, name };
      this.#vacant = (await table.size()) === 0;
    }
    return this.#made !== null && this.#table !== null;
  }

  /** Show the table that was made, or else change the one that is shown. */
  async apply(parts: Part[]): Promise<void> {
    if (this.#made) await this.#turn(this.#made);
    else for (const part of parts) if (this.#table) await change(this.#table.table, part);
  }

  /** Those who want to read wait until the tables have been exchanged. */
  async #turn(made: Named): Promise<void> {
    const exchanged = this.#exchange(made);
    this.#turning = Promise.allSettled([exchanged]).then(() => void (this.#turning = null));
    await exchanged;
  }

  async #exchange(made: Named): Promise<void> {
    let shown;
    do {
      shown = this.#shown; // one that is not in sight may just be shown for the first time
      await Promise.allSettled([...this.#readers, shown]); // their failures are told to those who asked
    } while (shown !== this.#shown);
    const before = this.#table;
    this.#table = made;
    this.#made = null;
    if (!before) return this.#open(made.table);
    const chart = this.ready && (await this.#hand());
    // with its texts, which the engine keeps for as long as their table is there
    if (chart) setTimeout(() => before.table.delete(), CHART_MS);
    else await before.table.delete();
  }

  /** Hand the table to the viewer, just as it is arranged. Whether that is a chart. */
  async #hand(): Promise<boolean> {
    const { regular_table: grid } = await this.viewer.getPlugin(); // a chart has none
    // from here on what a person arranges would be undone: nothing else is waited for
    const { settings: _settings, theme: _theme, title: _title, ...config } = await this.viewer.save();
    const selection = this.viewer.getSelection();
    const { scrollLeft = 0, scrollTop = 0 } = grid ?? {};
    await this.viewer.restore({ ...config, ...this.#bound });
    if (selection) this.viewer.setSelection(selection);
    if (grid && (grid.scrollLeft !== scrollLeft || grid.scrollTop !== scrollTop)) grid.scrollTo(scrollLeft, scrollTop);
    return !grid;
  }

  get #bound(): Config {
    return this.#table ? { table: this.#table.name } : {};
  }

  /** Read from the viewer or the table, while neither is exchanged. */
  async reading<T>(read: () => Promise<T>): Promise<T> {
    while (this.#turning) await this.#turning;
    const reader = read();
    this.#readers.add(reader);
    try {
      return await reader;
    } finally {
      this.#readers.delete(reader);
    }
  }

  /** How many rows there are; none before the first have come. */
  async size(): Promise<number> {
    return this.reading(async () => (await this.#table?.table.size()) ?? 0);
  }

  /** The rows; `config` is the engine's, of a view. */
  async rows<T>(config?: object): Promise<T[]> {
    return this.reading(async () => {
      const view = await this.#table?.table.view(config);
      try {
        return ((await view?.to_json()) ?? []) as T[];
      } finally {
        await view?.delete();
      }
    });
  }

  async #open(table: EngineTable): Promise<void> {
    const schema = await table.schema();
    this.#times = Object.keys(schema).filter((name) => schema[name] === "datetime");
    const columns = (await table.columns()).filter((name) => !name.startsWith("_"));
    this.#start = { plugin: "Datagrid", settings: false, columns, ...this.#arrangement.start };
    if (this.visible) await (this.#shown = this.#show());
    else setTimeout(() => (this.#shown = this.#show()), HIDDEN_MS);
  }

  async #show(): Promise<void> {
    await this.viewer.load(this.#engine);
    this.viewer.shadowRoot?.adoptedStyleSheets.push(BARE);
    await this.#restore(this.#start);
    this.viewer.querySelector("perspective-viewer-datagrid")?.shadowRoot?.adoptedStyleSheets.push(NARROW);
    this.#before = await this.#config();
    if (this.#arrangement.saved) await this.#restore({ ...this.#start, ...this.#arrangement.saved });
    this.ready = true;
    this.viewer.addEventListener("perspective-config-update", () => this.#save());
    prefs.addEventListener("theme", () => this.viewer.restore({ theme: theme() }));
    prefs.addEventListener("times", () => this.reading(async () => this.#restore(await this.viewer.save())));
  }

  async #restore(config: Config): Promise<void> {
    const formats = Object.fromEntries(
      this.#times.map((name) => [name, { ...config.columns_config?.[name], date_format: gridFormat() }]),
    );
    const columns_config = { ...config.columns_config, ...formats };
    await this.viewer.restore({ ...config, columns_config, ...this.#bound, title: this.name, theme: theme() });
  }

  /** As for somebody new. */
  async reset(): Promise<void> {
    await this.#shown; // a saved layout may be on its way into the viewer
    if (this.ready) await this.#restore(this.#before);
  }

  /** The room for it is another one: a chart that is just being made does not notice by itself. */
  fit(): void {
    if (this.ready && this.visible) void this.viewer.resize(true);
  }

  get visible(): boolean {
    return this.viewer.offsetParent !== null; // not in a hidden tab
  }

  /** What the viewer shows, or nothing: it has no view while the page is in the background. */
  async view(): Promise<View | null> {
    return this.viewer.getView().catch(() => null);
  }

  async #save(): Promise<void> {
    const config = await this.#config();
    if (config.plugin_config?.["edit_mode"] === "EDIT") {
      // cells that somebody changes here would be lost with the next change, and seem true until then
      return this.viewer.restore({ plugin_config: { ...config.plugin_config, edit_mode: "SELECT_REGION" } });
    }
    const before: Record<string, unknown> = this.#before;
    const other = Object.entries(config).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
    );
    this.#arrangement.changed(other.length ? Object.fromEntries(other) : undefined);
  }

  /** What a person can arrange: not what the page decides itself. */
  async #config(): Promise<Config> {
    const { table: _table, theme: _theme, title: _title, ...config } = await this.viewer.save();
    const columns = Object.entries(config.columns_config ?? {}).map(
      ([name, { date_format: _format, ...rest }]) => [name, rest] as const,
    );
    return { ...config, columns_config: Object.fromEntries(columns.filter(([, rest]) => Object.keys(rest).length)) };
  }
}

async function change(table: EngineTable, { kind, payload }: Part): Promise<void> {
  if (kind === "upsert") return table.update(payload);
  const { columns } = readArrow(payload); // the only one of a removal has the identities
  return table.remove(columns[0] ?? []);
}

function sheet(rules: string): CSSStyleSheet {
  const made = new CSSStyleSheet();
  made.replaceSync(rules);
  return made;
}

/** The panel around has a title of its own; the viewer's would be an empty line. */
const BARE = sheet("regular-layout-frame::part(titlebar) { display: none !important }");
/** A cell may hold a megabyte: the columns behind it must stay within reach. */
const NARROW = sheet("regular-table :is(td, th) { max-width: 900px; overflow: hidden; text-overflow: ellipsis }");

function theme(): string {
  return prefs.dark ? "Pro Dark" : "Pro Light";
}
