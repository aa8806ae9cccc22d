/** Layouts as they are stored and sent in links: written, read and checked. What is not well formed is left out. Pure. */
export const MOST_NAME_CHARS = 60;
export function isRecord(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}
export const isTexts = (value) => Array.isArray(value) && value.every((each) => typeof each === "string");
/** JSON, or undefined if it is none. */
export function parsed(json) {
    try {
        return JSON.parse(json ?? "null");
    }
    catch {
        return undefined;
    }
}
/** The well-formed parts of a layout, or null if it is none. */
export function readLayout(found) {
    if (!isRecord(found))
        return null;
    const layout = {};
    for (const name of ["view", "tab", "wide"]) {
        const value = found[name];
        if (typeof value === "string")
            layout[name] = value;
    }
    for (const name of ["following", "folded"]) {
        const value = found[name];
        if (isTexts(value))
            layout[name] = value;
    }
    const { split, tables } = found;
    if (isRecord(split))
        layout.split = entriesThat(split, isSize);
    if (isRecord(tables))
        layout.tables = entriesThat(tables, isConfig);
    return layout;
}
/** Its content is checked once the columns of the table are known. */
const isConfig = (value) => isRecord(value);
const isSize = (value) => typeof value === "number" && value > 0 && Number.isFinite(value);
function entriesThat(record, test) {
    return Object.fromEntries(Object.entries(record).filter((entry) => test(entry[1])));
}
/** All parts of a layout, the missing ones by default. */
export function completeLayout(found, defaults) {
    return { ...defaults, ...found, split: { ...defaults.split, ...found.split } };
}
/** A name on one line, without blanks around it. */
export const cleanName = (name) => typeof name === "string" ? name.replace(/[\s\p{C}]+/gu, " ").trim().slice(0, MOST_NAME_CHARS).trim() : "";
/** Whether both arrange the tables alike, whichever view of the page is open. */
export function sameArrangement(one, other) {
    const canonical = ({ view: _view, following, ...rest }) => JSON.stringify({ ...rest, following: [...following].sort() }, sortedKeys);
    return canonical(one) === canonical(other);
}
function sortedKeys(_key, value) {
    return isRecord(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
}
/** Text as a value in an address: base64 for URLs, of UTF-8. */
export function encode(text) {
    const binary = String.fromCharCode(...new TextEncoder().encode(text));
    return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
/** The text, or null if it was cut. */
export function decode(encoded) {
    try {
        const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
        return new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
    }
    catch {
        return null;
    }
}
