/** Popup menus, of a button or at a point. The browser closes them on Escape or a click outside. */
import { element } from "./dom.js";
let menuCount = 0;
export function attachMenu(opener, items) {
    const menu = createMenu();
    opener.setAttribute("aria-haspopup", "menu");
    opener.setAttribute("aria-expanded", "false");
    opener.addEventListener("click", () => show(menu, items(), opener.getBoundingClientRect()));
    menu.addEventListener("toggle", (event) => {
        const open = event.newState === "open";
        opener.setAttribute("aria-expanded", String(open));
        if (open)
            return;
        menu.remove();
        if (document.activeElement === document.body)
            opener.focus();
    });
}
/** Open a menu where the user clicked with the right button. */
export function openMenuAt(event, items) {
    event.preventDefault();
    const menu = createMenu();
    menu.addEventListener("toggle", (toggled) => toggled.newState === "closed" && menu.remove());
    const open = () => show(menu, items, new DOMRect(event.clientX, event.clientY, 0, 0));
    // where the event comes with the press, the release would count as a click outside
    if (event.buttons)
        addEventListener("pointerup", () => setTimeout(open), { once: true });
    else
        open();
}
function createMenu() {
    const menu = element("div", { class: "menu", role: "menu", popover: "auto", id: `menu-${(menuCount += 1)}` });
    menu.addEventListener("keydown", (event) => moveFocus(event, menu));
    return menu;
}
function show(menu, items, at) {
    menu.replaceChildren(...items.map((item) => ("heading" in item ? heading(item.heading) : entry(item, menu))));
    document.body.append(menu);
    menu.showPopover();
    placeBeside(menu, at);
    entries(menu)[0]?.focus();
}
const heading = (text) => element("div", { class: "heading", role: "presentation" }, text);
const entries = (menu) => [...menu.querySelectorAll("[role=menuitem]")];
function entry({ label, hint, action }, menu) {
    const texts = [element("span", { class: "label" }, label), element("span", { class: "muted" }, hint)];
    const created = element("button", { type: "button", role: "menuitem" }, ...texts);
    created.addEventListener("click", () => {
        menu.hidePopover();
        action();
    });
    return created;
}
/** Below this place, or above it if there is no room, inside the window. */
function placeBeside(menu, at) {
    const { offsetWidth, offsetHeight } = menu;
    const fitsBelow = at.bottom + 2 + offsetHeight <= innerHeight;
    menu.style.left = `${Math.max(4, Math.min(at.left, innerWidth - offsetWidth - 4))}px`;
    menu.style.top = `${fitsBelow ? at.bottom + 2 : Math.max(4, at.top - 2 - offsetHeight)}px`;
}
function moveFocus(event, menu) {
    const all = entries(menu);
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next === undefined)
        return;
    event.preventDefault();
    all.at(next % all.length)?.focus();
}
