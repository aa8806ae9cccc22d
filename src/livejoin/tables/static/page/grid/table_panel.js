/** One table's panel: row count, filters, tools, columns out of sight, and a message while it is empty. */
import { GRID, kindLabel, KINDS, rememberedGrid, toChart, toGrid } from "../arrange/chart_kinds.js";
import { button, element, setText } from "../ui/dom.js";
import { formatCount, plural } from "../ui/format.js";
import { icon, iconButton } from "../ui/icons.js";
import { attachMenu, openMenuAt } from "../ui/menu.js";
import { cellMenu, targetOf } from "./cell_menu.js";
import { styleCells } from "./cell_style.js";
import { ChangedCells } from "./changed_cells.js";
import { chartDefaults } from "./chart_defaults.js";
import { GridColumns } from "./columns.js";
import { copy, copyText, download, selection } from "./export.js";
import { FilterBar } from "./filter_bar.js";
import { enableHeadings } from "./headings.js";
import { OrderMenu } from "./order_menu.js";
import { correctedSort } from "./row_order.js";
import { writeTimes } from "./times.js";
const FORMAT_LABELS = { csv: "CSV", json: "JSON", arrow: "Arrow" };
const FORMATS = Object.keys(FORMAT_LABELS);
export class TablePanel {
    tools = element("div", { class: "tools" });
    #table;
    #body;
    #toast;
    #emptyMessage = element("div", { class: "empty", hidden: true });
    #count = element("span", { class: "count" });
    #rows = 0;
    #total; // the server's row count, if it has more than it sends
    #config = {}; // the viewer's
    #filters;
    #pluginSelect = element("select", { class: "flat", "aria-label": "grid or chart" });
    #gridConfig = null; // to restore when a chart becomes a grid again
    #widenButton;
    #moreButton;
    #order;
    #columns = null;
    /** `body` is the viewer's parent. */
    constructor(table, body, toast, { following, arrangePanel, onFollow, onWiden }) {
        const { name } = table;
        this.#table = table;
        this.#body = body;
        this.#toast = toast;
        this.#filters = new FilterBar(table);
        body.prepend(this.#filters.chips);
        body.append(this.#emptyMessage);
        for (const { plugin } of KINDS)
            this.#pluginSelect.append(element("option", { value: plugin }, kindLabel(plugin)));
        this.#pluginSelect.addEventListener("change", () => this.#setPlugin(this.#pluginSelect.value));
        table.onConfig((config) => {
            this.#config = config;
            this.#showPlugin();
            this.#filters.show(config);
            void this.#showCount();
        });
        const arrange = button("", {
            class: "flat",
            title: `Sort, filter, columns, group, pivot of ${name}`,
            "aria-expanded": false,
            "aria-controls": "arrange",
        }, () => table.ready && arrangePanel.toggle({ table, opener: arrange, setPlugin: (to) => this.#setPlugin(to) }));
        arrange.append(icon("settings"), element("span", { class: "text" }, "Arrange"));
        const copyButton = iconButton("copy", `Copy the selected cells of ${name}, or all rows`, () => this.#copy());
        const exportButton = iconButton("download", `Export ${name}`, () => { });
        attachMenu(exportButton, () => this.#exportMenu());
        this.#widenButton = iconButton("widen", `Widen ${name}`, () => onWiden(name));
        this.#order = new OrderMenu(table, following, onFollow);
        this.#moreButton = button("", { class: "flat more", hidden: true }, () => this.#columns?.reveal());
        table.onGrid((grid) => this.#extend(grid));
        this.tools.append(this.#count, this.#filters.input, element("span", { class: "spacer" }), this.#moreButton, this.#order.button, this.#pluginSelect, arrange, copyButton, exportButton, this.#widenButton);
    }
    /** Whether this table fills the workspace. */
    set wide(wide) {
        this.#widenButton.replaceChildren(icon(wide ? "narrow" : "widen"));
        this.#widenButton.setAttribute("aria-pressed", String(wide));
    }
    /** Put the cursor into the quick filter. */
    focusFilter() {
        this.#filters.input.select();
    }
    /** `total` is the server's row count, if it has more than it sends. `reason` is shown if there are no rows. */
    async showRows(rows, total, reason) {
        this.#rows = rows;
        this.#total = total;
        const passing = await this.#showCount();
        const filtered = passing === 0 && rows > 0;
        const text = rows === 0 ? reason : filtered ? "No row passes the filter." : "";
        this.#emptyMessage.hidden = !text;
        this.#body.classList.toggle("is-empty", Boolean(text));
        if (this.#emptyMessage.dataset["text"] === text)
            return;
        this.#emptyMessage.dataset["text"] = text;
        this.#emptyMessage.replaceChildren(element("p", {}, text));
        if (filtered)
            this.#emptyMessage.append(button("Clear the filter", {}, () => this.#filters.clear()));
    }
    /** `584`, or `412 of 584` with a filter. Returns the rows that pass it. */
    async #showCount() {
        const { filter = [] } = this.#config;
        const passing = filter.length && this.#table.visible ? await this.#table.passing(this.#config) : null;
        if (passing !== null && filter !== this.#config.filter)
            return null; // changed meanwhile
        const suffix = this.#total !== undefined && this.#total > this.#rows ? ` newest of ${formatCount(this.#total)}` : "";
        const all = formatCount(this.#rows) + suffix;
        this.#count.toggleAttribute("data-filtered", passing !== null);
        setText(this.#count, passing === null ? all : `${formatCount(passing)} of ${all}`);
        return passing;
    }
    /** Another arrangement is shown; `following`: whether the newest row is kept in view. */
    arranged(following) {
        this.#order.following = following;
        this.#gridConfig = null;
    }
    /** What the engine's grid does not do by itself. */
    #extend(grid) {
        writeTimes(grid);
        styleCells(grid);
        enableHeadings(grid, (column, add) => this.#order.sort(column, add));
        const changed = new ChangedCells(grid);
        this.#table.onRows((ids) => changed.rowsArrived(ids));
        this.#columns = new GridColumns(grid, (found) => this.#showOutOfSight(found));
        grid.regular_table.addEventListener("contextmenu", (event) => {
            const target = targetOf(grid, event);
            if (target)
                openMenuAt(event, this.#cellMenu(target));
        });
    }
    #cellMenu(target) {
        return cellMenu(target, this.#config, this.#table.types, {
            filter: (filter) => void this.#table.viewer.restore({ filter }),
            copy: (text) => this.#toast.showFailure("The value could not be copied", copyText(text)),
        });
    }
    #showOutOfSight({ left, right }) {
        this.#body.toggleAttribute("data-more-right", right.length > 0);
        this.#moreButton.hidden = !left.length && !right.length;
        const arrows = [left.length ? "← " : "", `${left.length + right.length} more`, right.length ? " →" : ""];
        setText(this.#moreButton, arrows.join(""));
        this.#moreButton.title = `Columns out of sight: ${[...left, ...right].join(", ")}`;
    }
    async #setPlugin(plugin) {
        const { viewer, name, ready } = this.#table;
        if (!ready)
            return;
        const config = await viewer.save();
        if (plugin === GRID) {
            await viewer.restore(toGrid(config, this.#gridConfig, chartDefaults(name, this.#table.types), this.#table.defaults));
            this.#gridConfig = null;
            return;
        }
        this.#gridConfig = rememberedGrid(config) ?? this.#gridConfig;
        const chart = toChart(config, plugin, chartDefaults(name, this.#table.types));
        const sort = correctedSort(name, { ...config, ...chart }, "desc");
        await viewer.restore({ ...chart, ...(sort ? { sort } : {}) });
        this.#table.fit();
    }
    #showPlugin() {
        const { plugin = GRID } = this.#config;
        if (plugin !== GRID)
            this.#showOutOfSight({ left: [], right: [] });
        if (![...this.#pluginSelect.options].some(({ value }) => value === plugin)) {
            this.#pluginSelect.append(element("option", { value: plugin }, plugin)); // chosen in Perspective's own panel
        }
        this.#pluginSelect.value = plugin;
    }
    #exportMenu() {
        const { name, viewer } = this.#table;
        const shown = (format) => ({
            label: FORMAT_LABELS[format],
            hint: `${name}.${format}`,
            action: () => this.#toast.showFailure(`${name} could not be exported`, this.#table.reading(() => download(viewer, name, format))),
        });
        const complete = (format) => ({
            label: FORMAT_LABELS[format],
            hint: "every row and column",
            action: () => window.open(`api/v1/tables/${name}?format=${format}`, "_blank", "noopener"),
        });
        return [
            { heading: "As shown here" },
            ...FORMATS.map(shown),
            { heading: "From the server" },
            ...FORMATS.map(complete),
        ];
    }
    /** Copy the selected cells. Returns false if there is no selection. */
    copySelection() {
        if (!this.#table.ready || !selection(this.#table.viewer))
            return false;
        this.#copy();
        return true;
    }
    #copy() {
        const { viewer, name } = this.#table;
        const copied = this.#table
            .reading(() => copy(viewer))
            .then((rows) => this.#toast.show(`Copied ${plural(rows, "row")} of ${name}.`));
        this.#toast.showFailure(`${name} could not be copied`, copied);
    }
}
