/** Elements, found and made. What is given is put there as text and never as HTML. */
export function byId(id) {
    const found = document.getElementById(id);
    if (found === null)
        throw new Error(`the page lacks #${id}`);
    return found;
}
/** Set a text, if it is another one: what stays is not drawn again, nor read out again. */
export function put(element, text) {
    if (element.textContent !== text)
        element.textContent = text;
}
/** The same for a text that may be cut, which is then there to be read by pointing at it. */
export function putWhole(element, text) {
    put(element, text);
    if (element.title !== text)
        element.title = text;
}
/** Attributes that are true or false stand there or not. */
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    give(element, attributes);
    element.append(...children);
    return element;
}
export function draw(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    give(element, attributes);
    element.append(...children);
    return element;
}
function give(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
        const told = typeof value !== "boolean" || name.startsWith("aria-"); // those say true or false
        if (told)
            element.setAttribute(name, String(value));
        else if (value)
            element.setAttribute(name, "");
    }
}
export function button(text, attributes, click) {
    const element = make("button", { type: "button", ...attributes }, text);
    element.addEventListener("click", click);
    return element;
}
/** Pairs of what and how much. */
export function facts(pairs) {
    return make("dl", { class: "facts" }, ...pairs.flatMap(([what, how]) => [make("dt", {}, what), make("dd", {}, how)]));
}
