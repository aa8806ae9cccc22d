/** Finding and creating elements. Content is always inserted as text, never as HTML. */
export function byId(id) {
    const found = document.getElementById(id);
    if (found === null)
        throw new Error(`the page has no element #${id}`);
    return found;
}
/** Set the text only if it differs, so that it is not rendered or announced again. */
export function setText(target, text) {
    if (target.textContent !== text)
        target.textContent = text;
}
/** The same for a text that may be cut off: the title shows all of it. */
export function setTextAndTitle(target, text) {
    setText(target, text);
    if (target.title !== text)
        target.title = text;
}
/** Show these children in this order. Those that are there already stay, with focus and pointer. */
export function setChildren(parent, children) {
    const focused = document.activeElement;
    const wanted = new Set(children);
    for (const child of [...parent.children])
        if (!wanted.has(child))
            child.remove();
    children.forEach((child, i) => {
        if (parent.children[i] !== child)
            parent.insertBefore(child, parent.children[i] ?? null);
    });
    if (focused instanceof HTMLElement && parent.contains(focused))
        focused.focus({ preventScroll: true });
}
export function element(tag, attributes = {}, ...children) {
    const created = document.createElement(tag);
    setAttributes(created, attributes);
    created.append(...children);
    return created;
}
export function svgElement(tag, attributes = {}, ...children) {
    const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
    setAttributes(created, attributes);
    created.append(...children);
    return created;
}
/** A boolean attribute is present or absent; ARIA attributes are "true" or "false". */
function setAttributes(target, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value !== "boolean" || name.startsWith("aria-"))
            target.setAttribute(name, String(value));
        else if (value)
            target.setAttribute(name, "");
    }
}
export function button(text, attributes, onClick) {
    const created = element("button", { type: "button", ...attributes }, text);
    created.addEventListener("click", onClick);
    return created;
}
/** Labels and values as a `<dl>`. */
export function descriptionList(pairs) {
    const items = pairs.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]);
    return element("dl", { class: "facts" }, ...items);
}
