/** The views of the page: one is shown, and the address remembers which. */
import { byId } from "./dom.js";
const VIEWS = ["tables", "timeline", "health"];
/** `shown` is told when a view comes into sight. Returns what shows one. */
export function views(layouts, shown) {
    const show = (name) => {
        for (const one of VIEWS) {
            byId(`view-${one}`).hidden = one !== name;
            byId(`to-${one}`).setAttribute("aria-pressed", String(one === name));
        }
        if (layouts.now.view !== name)
            layouts.set({ view: name });
        shown[name]?.();
    };
    for (const one of VIEWS)
        byId(`to-${one}`).addEventListener("click", () => show(one));
    show(VIEWS.find((one) => one === layouts.now.view) ?? "tables");
    return show;
}
