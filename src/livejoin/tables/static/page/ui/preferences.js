/** What a person prefers on every livejoin: light or dark, local time or UTC. */
const KEY = "livejoin.prefs.v1";
const DARK = matchMedia("(prefers-color-scheme: dark)");
const NEXT = { system: "light", light: "dark", dark: "system" };
class Preferences extends EventTarget {
    #now = { theme: "system", utc: false };
    constructor() {
        super();
        try {
            const { theme, utc } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
            this.#now = { theme: theme in NEXT ? theme : "system", utc: utc === true };
        }
        catch {
            // somebody else's, or cut off: the defaults are fine
        }
        DARK.addEventListener("change", () => this.dispatchEvent(new Event("theme")));
        this.#apply();
    }
    get theme() {
        return this.#now.theme;
    }
    get dark() {
        return this.#now.theme === "dark" || (this.#now.theme === "system" && DARK.matches);
    }
    get utc() {
        return this.#now.utc;
    }
    nextTheme() {
        this.#set({ ...this.#now, theme: NEXT[this.#now.theme] }, "theme");
    }
    toggleUtc() {
        this.#set({ ...this.#now, utc: !this.#now.utc }, "times");
    }
    #set(now, what) {
        this.#now = now;
        localStorage.setItem(KEY, JSON.stringify(now));
        this.#apply();
        this.dispatchEvent(new Event(what));
    }
    #apply() {
        document.documentElement.dataset["theme"] = this.#now.theme;
    }
}
export const prefs = new Preferences();
