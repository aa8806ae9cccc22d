/** Controls that the sections of the Arrange panel share. Each has a key, by which it keeps the focus. */
import { button, element } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { isInternal } from "./arrangement.js";
export function sectionRoot(name) {
    return element("div", { class: "part", role: "group", "data-part": name });
}
/** Replace the content of a section. The focus goes to the first of `keys` that exists, or stays where it was. */
export function redraw(root, title, content, keys = []) {
    const focused = document.activeElement;
    const kept = focused && root.contains(focused) ? [focused.dataset["key"] ?? ""] : [];
    root.setAttribute("aria-label", title);
    root.replaceChildren(element("h3", {}, title), ...content);
    const control = (key) => root.querySelector(`[data-key="${CSS.escape(key)}"]:enabled`);
    const found = [...keys, ...kept].map(control).find((each) => each !== null);
    if (found)
        found.focus();
    else if (kept.length)
        root.querySelector(":is(button, select, input):enabled")?.focus();
}
export function choice(key, label, options, chosen, onChange) {
    const select = element("select", { "data-key": key, "aria-label": label });
    // the expert panel, or a link, may have chosen something that is not offered here
    const known = options.some(([value]) => value === chosen);
    for (const [value, text] of known ? options : [...options, [chosen, chosen]]) {
        select.append(element("option", { value }, text));
    }
    select.value = chosen;
    select.addEventListener("change", () => onChange(select.value));
    return select;
}
/** A list of columns, livejoin's own last. `none` is the text of an empty choice. */
export function columnChoice(key, label, types, chosen, onChange, none) {
    const names = Object.keys(types);
    const ordered = [...names.filter((name) => !isInternal(name)), ...names.filter(isInternal)];
    const options = ordered.map((name) => [name, name]);
    return choice(key, label, none === undefined ? options : [["", none], ...options], chosen, onChange);
}
export function small(key, name, label, onClick) {
    const created = button("", { class: "flat icon-only", title: label, "aria-label": label, "data-key": key }, onClick);
    created.append(icon(name));
    return created;
}
/** Buttons that move a row of a list up and down. `onMove` gets its new place. */
export function moveButtons(key, label, at, count, onMove) {
    const up = small(`${key}-up-${at}`, "up", `Move ${label} up`, () => onMove(at - 1));
    const down = small(`${key}-down-${at}`, "down", `Move ${label} down`, () => onMove(at + 1));
    up.disabled = at === 0;
    down.disabled = at === count - 1;
    return [up, down];
}
/** Where the focus goes after a row was moved: the same button, or the other one at an end. */
export const movedKeys = (key, from, to) => to < from ? [`${key}-up-${to}`, `${key}-down-${to}`] : [`${key}-down-${to}`, `${key}-up-${to}`];
export function addButton(key, text, label, onClick) {
    const created = button(text, { class: "flat add", "aria-label": label, "data-key": key }, onClick);
    created.prepend(icon("add"));
    return created;
}
