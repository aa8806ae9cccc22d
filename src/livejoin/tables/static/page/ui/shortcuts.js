/** Keyboard shortcuts and the dialog that lists them. Inactive while the user types into a field. */
import { byId, element } from "./dom.js";
/** Keys that the browser or single elements handle, for the list only. */
const BUILT_IN = [
    ["Ctrl C", "copy the selected cells"],
    ["Escape", "close the open dialog, menu or panel"],
    ["Enter on a heading", "sort by the column, with Shift by several"],
    ["Tab, arrows", "move between and within parts of the page"],
    ["Enter", "press the focused button"],
];
export function registerShortcuts(shortcuts) {
    const help = byId("help");
    const all = [...shortcuts, { key: "?", description: "show this list", action: () => toggle(help) }];
    const listed = [...all.map(({ key, description }) => [key, description]), ...BUILT_IN];
    byId("keys").replaceChildren(...listed.flatMap(([key, description]) => [
        element("dt", {}, element("kbd", {}, key)),
        element("dd", {}, description),
    ]));
    byId("help-open").addEventListener("click", () => toggle(help));
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event))
            return;
        const found = all.find(({ key }) => key === event.key);
        if (!found || (document.querySelector("dialog[open]") && !(help.open && found.key === "?")))
            return;
        event.preventDefault();
        found.action();
    });
}
function toggle(help) {
    if (help.open)
        help.close();
    else
        help.showModal();
}
/** Whether the key goes into a field, including fields inside the grid's shadow roots. */
export function isTyping(event) {
    return event
        .composedPath()
        .some((node) => node instanceof HTMLElement &&
        (node.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName)));
}
/**
 * Close a panel by Escape, wherever the focus is: that of a viewer cannot be in a form that is disabled. Menus, dialogs
 * and open lists have an Escape of their own; so has a field elsewhere on the page.
 */
export function closeOnEscape(panel, close) {
    document.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || event.defaultPrevented || panel.hidden)
            return;
        if (document.querySelector("dialog[open], :popover-open"))
            return;
        if (!isTyping(event) || event.composedPath().includes(panel))
            close();
    });
}
