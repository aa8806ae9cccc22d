/**
 * The panel that arranges one table: kind of chart, columns or axes, groups, sort, filters.
 * It edits the viewer's configuration, and shows it again whenever something else has changed it.
 */
import { button, byId, element, setText } from "../ui/dom.js";
import { preferences } from "../ui/preferences.js";
import { isTyping } from "../ui/shortcuts.js";
import { ChartSection } from "./chart_section.js";
import { ColumnsSection } from "./columns_section.js";
import { closeExpertPanel, openExpertPanel } from "./expert_panel.js";
import { FilterSection } from "./filter_section.js";
import { GroupSection } from "./group_section.js";
import { SortSection } from "./sort_section.js";
export class ArrangePanel {
    #root = element("div", { id: "arrange", role: "dialog", "aria-labelledby": "arrange-title", hidden: true });
    #title = element("span");
    #filters;
    #sections;
    #toast;
    #target = null;
    #config = {};
    #queue = Promise.resolve();
    #shown = new Map(); // others stay as they are: the pointer may just be pressing one of their buttons
    #pending = 0; // edits that the viewer does not have yet: what it reports before is out of date
    constructor(toast) {
        this.#toast = toast;
        const apply = (change) => this.#apply(change);
        this.#filters = new FilterSection(apply);
        const chart = new ChartSection((plugin) => this.#setPlugin(plugin));
        const groups = ["group_by", "split_by"].map((setting) => new GroupSection(setting, apply));
        this.#sections = [chart, new ColumnsSection(apply), ...groups, new SortSection(apply), this.#filters];
        this.#build();
        this.#closeBesideOthers();
        preferences.addEventListener("timezone", () => {
            this.#filters.forget();
            this.#shown.clear();
            this.#show();
        });
    }
    #build() {
        const close = button("✕", { class: "flat", "aria-label": "Close" }, () => this.close());
        const title = "Perspective's own panel: computed columns, styles, other charts";
        const expert = button("Expert panel…", { class: "flat", title }, () => this.#openExpert());
        this.#root.tabIndex = -1; // gets the focus when it opens
        this.#root.append(element("h2", { id: "arrange-title" }, this.#title, close), ...this.#sections.map(({ root }) => root), element("footer", {}, expert));
        byId("middle").append(this.#root);
        document.addEventListener("keydown", (event) => {
            if (event.key !== "Escape" || event.isComposing || event.defaultPrevented)
                return;
            const inside = event.composedPath().includes(this.#root);
            const elsewhere = isTyping(event) || event.target.closest("dialog, [popover]");
            if (!this.#target || (!inside && elsewhere))
                return;
            event.preventDefault(); // one key closes one panel
            this.close();
        });
    }
    /** The swap panel takes the same place, and other views have no tables. */
    #closeBesideOthers() {
        const [swapPanel, tables] = [byId("control"), byId("view-tables")];
        const observer = new MutationObserver(() => {
            if (!swapPanel.hidden || tables.hidden)
                this.close(false);
        });
        for (const each of [swapPanel, tables])
            observer.observe(each, { attributeFilter: ["hidden"] });
    }
    /** Open the panel for a table, or close it if it is open for that table. */
    toggle(target) {
        if (this.#target?.table === target.table)
            this.close();
        else
            void this.#open(target);
    }
    async #open(target) {
        this.close(false);
        if (!byId("control").hidden)
            byId("close").click();
        this.#target = target;
        target.table.viewer.addEventListener("perspective-config-update", this.#configChanged);
        await closeExpertPanel(target.table.viewer);
        await this.#read();
        if (this.#target !== target)
            return;
        setText(this.#title, `Arrange ${target.table.name}`);
        target.opener.setAttribute("aria-expanded", "true");
        this.#root.hidden = false;
        this.#root.scrollTop = 0;
        this.#root.focus();
    }
    close(focusOpener = true) {
        const target = this.#target;
        if (!target)
            return;
        this.#filters.forget(); // applies what was typed last
        this.#shown.clear();
        this.#target = null;
        this.#root.hidden = true;
        target.table.viewer.removeEventListener("perspective-config-update", this.#configChanged);
        target.opener.setAttribute("aria-expanded", "false");
        if (focusOpener)
            target.opener.focus();
    }
    /** The table is gone. */
    closeFor(name) {
        if (this.#target?.table.name === name)
            this.close(false);
    }
    #openExpert() {
        const target = this.#target;
        this.close();
        if (target)
            void openExpertPanel(target.table.viewer, target.opener);
    }
    #configChanged = () => void this.#read();
    async #read() {
        const target = this.#target;
        const config = await target?.table.viewer.save();
        if (!config || target !== this.#target || this.#pending)
            return;
        this.#config = config;
        this.#show();
    }
    #show() {
        if (!this.#target)
            return;
        const { name, types } = this.#target.table;
        const arranged = { table: name, config: this.#config, types };
        for (const section of this.#sections) {
            const shown = JSON.stringify([section.settings.map((name) => this.#config[name]), types]);
            if (this.#shown.get(section) === shown)
                continue;
            this.#shown.set(section, shown);
            section.show(arranged);
        }
    }
    /** Show the edit at once; the viewer gets edits one after another. */
    #apply(change) {
        const target = this.#target;
        if (!target || !Object.keys(change).length)
            return;
        this.#config = { ...this.#config, ...change };
        this.#enqueue(target, () => target.table.reading(() => target.table.viewer.restore(change)));
        this.#show();
    }
    #setPlugin(plugin) {
        const target = this.#target;
        if (target)
            this.#enqueue(target, () => target.setPlugin(plugin));
    }
    #enqueue(target, edit) {
        this.#pending += 1;
        const done = this.#queue.then(edit).finally(() => {
            this.#pending -= 1;
            if (!this.#pending)
                void this.#read();
        });
        this.#queue = done.catch(() => { }); // reported by the toast
        this.#toast.showFailure(`${target.table.name} could not be arranged`, done);
    }
}
