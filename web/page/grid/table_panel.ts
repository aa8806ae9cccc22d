/** One table's panel: its name and count, what can be done with it, and what it says while it is empty. */

import { button, make, put } from "../ui/dom.js";
import type { Config } from "./perspective.js";
import { copy, download, selected } from "./export.js";
import type { Format } from "./export.js";
import { icon } from "../ui/icons.js";
import { menu } from "../ui/menu.js";
import type { Replica } from "./grid_table.js";
import type { Told } from "../ui/toast.js";
import { counted } from "../../protocol/api_types.js";

/** How a table is drawn as a chart at first: a chart of every single row says nothing. */
const CHARTED: Record<string, Config> = {
  users_ui: { group_by: ["age"], columns: ["userId"], aggregates: { userId: "count" } },
  accounts_ui: { group_by: ["accountType"], columns: ["balance"], aggregates: { balance: "sum" } },
  final_ui: {
    group_by: ["accountType"],
    columns: ["balance"],
    aggregates: { balance: "sum" },
    filter: [["accountType", "is not null", null]], // the engine's charts give a group without a name the name of another
  },
  rejects_ui: { group_by: ["reason"], columns: ["offset"], aggregates: { offset: "count" } },
  orchestrator_logs: { group_by: ["level"], columns: ["msg"], aggregates: { msg: "count" } },
  control_raw: { group_by: ["outcome"], columns: ["offset"], aggregates: { offset: "count" } },
  generations: { group_by: ["generation"], columns: ["catchUpSeconds"] },
};
const NAMES: Record<Format, string> = { csv: "CSV", json: "JSON", arrow: "Arrow" };
const FORMATS = Object.keys(NAMES) as Format[];
const GRID = "Datagrid";
const CHARTS = ["Y Bar", "X Bar", "Y Line", "Y Area", "Y Scatter", "Treemap", "Sunburst", "Heatmap"];

export class Panel {
  readonly tools = make("div", { class: "tools" });
  #replica: Replica;
  #body: HTMLElement;
  #told: Told;
  #empty = make("div", { class: "empty", hidden: true });
  #count = make("span", { class: "count" });
  #chart = make("select", { class: "quiet", "aria-label": "grid or chart" });
  #grid: Config | null = null; // as it was before it became a chart
  #wide: HTMLButtonElement;

  /** `body` is around the viewer; `widen` gives this table the workspace, or takes it back. */
  constructor(replica: Replica, body: HTMLElement, told: Told, widen: (name: string) => void) {
    this.#replica = replica;
    this.#body = body;
    this.#told = told;
    body.append(this.#empty);
    for (const name of [GRID, ...CHARTS])
      this.#chart.append(make("option", { value: name }, name === GRID ? "Grid" : name));
    this.#chart.addEventListener("change", () => this.#draw(this.#chart.value));
    replica.viewer.addEventListener("perspective-config-update", () => replica.ready && this.#follow());
    const name = replica.name;
    const settings = button(
      "",
      { class: "quiet", title: `Sort, filter, columns, group, pivot of ${name}` },
      () => replica.ready && void replica.viewer.toggleConfig(),
    );
    settings.append(icon("settings"), make("span", { class: "text" }, "Arrange"));
    const copying = iconButton("copy", `Copy the selected cells of ${name}, or else all rows`, () => this.#copy());
    const exporting = iconButton("download", `Export ${name}`, () => {});
    menu(exporting, () => this.#exports());
    this.#wide = iconButton("widen", `Widen ${name}`, () => widen(name));
    this.tools.append(
      this.#count,
      make("span", { class: "gap" }),
      this.#chart,
      settings,
      copying,
      exporting,
      this.#wide,
    );
  }

  /** Whether this table has the workspace for itself. */
  set wide(yes: boolean) {
    this.#wide.replaceChildren(icon(yes ? "narrow" : "widen"));
    this.#wide.setAttribute("aria-pressed", String(yes));
  }

  /** How many rows there are here, and in all, if that is more. */
  count(rows: number, total: number | undefined): void {
    const all = total !== undefined && total > rows ? ` newest of ${total.toLocaleString("en")}` : "";
    put(this.#count, rows.toLocaleString("en") + all);
  }

  /** Say why there is nothing to see; nothing: there is. */
  async empty(rows: number, why: string): Promise<void> {
    const hidden = await this.#filtered(rows);
    const text = rows === 0 ? why : hidden ? "No row passes the filter." : "";
    this.#empty.hidden = !text;
    this.#body.classList.toggle("is-empty", Boolean(text));
    if (this.#empty.dataset["text"] === text) return;
    this.#empty.dataset["text"] = text;
    this.#empty.replaceChildren(make("p", {}, text));
    if (hidden) this.#empty.append(button("Clear the filter", {}, () => this.#replica.viewer.restore({ filter: [] })));
  }

  async #filtered(rows: number): Promise<boolean> {
    if (!rows || !this.#replica.ready || !this.#replica.visible) return false;
    const { filter = [] } = await this.#replica.viewer.save();
    if (!filter.length) return false;
    return this.#replica.reading(async () => (await (await this.#replica.view())?.num_rows()) === 0);
  }

  async #draw(plugin: string): Promise<void> {
    const { viewer, name, ready } = this.#replica;
    if (!ready) return;
    const now = await viewer.save();
    if (plugin === GRID) {
      await viewer.restore({ plugin, ...(this.#grid ?? {}) });
      this.#grid = null;
      return;
    }
    const { columns = [], group_by = [], aggregates = {}, filter = [], group_rollup_mode = "rollup" } = now; // charts change the last
    const plain = now.plugin === GRID && !group_by.length;
    if (plain) this.#grid = { columns, group_by, aggregates, filter, group_rollup_mode };
    const charted = plain ? CHARTED[name] : {};
    await viewer.restore({ plugin, ...charted, filter: [...filter, ...(charted?.filter ?? [])] });
    this.#replica.fit();
  }

  async #follow(): Promise<void> {
    const { plugin = GRID } = await this.#replica.viewer.save();
    if (![...this.#chart.options].some(({ value }) => value === plugin)) {
      this.#chart.append(make("option", { value: plugin }, plugin)); // chosen in the engine's own panel
    }
    this.#chart.value = plugin;
  }

  #exports() {
    const { name, viewer } = this.#replica;
    const file = (format: Format) => ({
      text: NAMES[format],
      hint: `${name}.${format}`,
      do: () =>
        this.#told.trying(
          `${name} could not be exported`,
          this.#replica.reading(() => download(viewer, name, format)),
        ),
    });
    const whole = (format: Format) => ({
      text: NAMES[format],
      hint: "every row and column",
      do: () => window.open(`api/v1/tables/${name}?format=${format}`, "_blank", "noopener"),
    });
    return [
      { heading: "As it is shown here" },
      ...FORMATS.map(file),
      { heading: "From the server" },
      ...FORMATS.map(whole),
    ];
  }

  /** Copy the cells that are selected. Whether there are any. */
  copySelected(): boolean {
    if (!this.#replica.ready || !selected(this.#replica.viewer)) return false;
    this.#copy();
    return true;
  }

  #copy(): void {
    const { viewer, name } = this.#replica;
    const copied = this.#replica.reading(() => copy(viewer)).then((rows) => this.#told.say(`Copied ${counted(rows, "row")} of ${name}.`));
    this.#told.trying(`${name} could not be copied`, copied);
  }
}

export function iconButton(name: Parameters<typeof icon>[0], title: string, click: () => void): HTMLButtonElement {
  const made = button("", { class: "quiet icon-only", title, "aria-label": title }, click);
  made.append(icon(name));
  return made;
}
