/**
 * How a person has arranged the page: kept in the browser, and in the address, so that it can be sent to somebody.
 * An address counts over what the browser keeps. Other things in the address are left alone.
 */
const KEY = "livejoin.layout.v2";
const PART = "layout"; // of the address
const SETTLE_MS = 300;
export class Layouts {
    #start;
    #now;
    #timer;
    constructor(start) {
        this.#start = start;
        const found = fromAddress() ?? parsed(localStorage.getItem(KEY)) ?? {};
        this.#now = { ...start, ...found, split: { ...start.split, ...found.split } };
    }
    get now() {
        return this.#now;
    }
    set(change) {
        this.#now = { ...this.#now, ...change };
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#save(), SETTLE_MS);
    }
    /** As for somebody new. */
    reset() {
        this.set(this.#start);
    }
    #save() {
        const text = JSON.stringify(this.#now);
        if (text === JSON.stringify(this.#start)) {
            localStorage.removeItem(KEY);
            toAddress(null);
        }
        else {
            localStorage.setItem(KEY, text);
            toAddress(text);
        }
    }
}
function fromAddress() {
    const part = new URLSearchParams(location.hash.slice(1)).get(PART);
    if (part === null)
        return null;
    try {
        const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
        return parsed(new TextDecoder().decode(bytes));
    }
    catch {
        return null; // cut off on its way here: the person's own is better than none
    }
}
function toAddress(text) {
    const parts = new URLSearchParams(location.hash.slice(1));
    parts.delete(PART);
    if (text !== null) {
        const bytes = String.fromCharCode(...new TextEncoder().encode(text));
        parts.set(PART, btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
    }
    const rest = parts.toString();
    history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
}
function parsed(text) {
    try {
        const found = JSON.parse(text ?? "null");
        return typeof found === "object" ? found : null;
    }
    catch {
        return null;
    }
}
