/** The views of the page, and tabs over panels. One view and one tab are visible at a time; the others are hidden. */
import { byId } from "./dom.js";
const VIEWS = ["tables", "timeline", "health"];
/** `onShow` is called when a view becomes visible. Returns the function that shows a view. */
export function createViews(layout, onShow) {
    const show = (wanted) => {
        const name = VIEWS.find((view) => view === wanted) ?? "tables";
        for (const view of VIEWS) {
            byId(`view-${view}`).hidden = view !== name;
            byId(`to-${view}`).setAttribute("aria-pressed", String(view === name));
        }
        if (layout.current.view !== name)
            layout.update({ view: name });
        onShow[name]?.();
    };
    for (const view of VIEWS)
        byId(`to-${view}`).addEventListener("click", () => show(view));
    show(layout.current.view);
    return show;
}
/**
 * `list` holds `role="tab"` buttons, each with the id of its panel in `aria-controls`.
 * Returns the function that shows the tab with an id.
 */
export function createTabs(list, initialId, onShow) {
    const all = [...list.querySelectorAll("[role=tab]")];
    const tabs = () => all.filter((tab) => !tab.hidden); // some are for operators only
    const show = (selected) => {
        if (!selected)
            return;
        for (const tab of all) {
            tab.setAttribute("aria-selected", String(tab === selected));
            tab.tabIndex = tab === selected ? 0 : -1;
            const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
            if (panel)
                panel.hidden = tab !== selected;
        }
        onShow(selected);
    };
    const moves = {
        ArrowRight: (at) => (at + 1) % tabs().length,
        ArrowLeft: (at) => at - 1,
        Home: () => 0,
        End: () => -1,
    };
    for (const tab of all) {
        tab.addEventListener("click", () => show(tab));
        tab.addEventListener("keydown", (event) => {
            const next = tabs().at(moves[event.key]?.(tabs().indexOf(tab)) ?? NaN);
            if (moves[event.key] === undefined || !next)
                return;
            event.preventDefault();
            show(next);
            next.focus();
        });
    }
    const find = (id) => tabs().find((tab) => tab.id === id);
    show(find(initialId) ?? tabs()[0]);
    return (id) => show(find(id));
}
