/** Keys that do things, and the list of them. They are left alone while somebody types. */
import { byId, make } from "./dom.js";
export function keys(all) {
    const help = byId("help");
    const every = [...all, { key: "?", does: "show this list", do: () => toggle(help) }];
    const more = [
        ["Ctrl C", "copy the cells that are selected"],
        ["Escape", "close what is open"],
        ["Tab, arrows", "move between and inside parts"],
        ["Enter", "press what has the frame around it"],
    ];
    byId("keys").replaceChildren(...[...every.map(({ key, does }) => [key, does]), ...more].flatMap(([key, does]) => [
        make("dt", {}, make("kbd", {}, key)),
        make("dd", {}, does),
    ]));
    byId("help-open").addEventListener("click", () => toggle(help));
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing(event))
            return;
        const found = every.find(({ key }) => key === event.key);
        if (!found || (help.open && found.key !== "?"))
            return;
        event.preventDefault();
        found.do();
    });
}
function toggle(help) {
    if (help.open)
        help.close();
    else
        help.showModal();
}
/** Whether the key goes into a field, also into one inside the engine's own elements. */
export function typing(event) {
    return event
        .composedPath()
        .some((one) => one instanceof HTMLElement && (one.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(one.tagName)));
}
