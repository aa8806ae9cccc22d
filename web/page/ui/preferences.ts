/** The user's preferences: light or dark, local time or UTC. Dispatches `theme` and `timezone` events. */

export type Theme = "system" | "light" | "dark";
type Settings = { theme: Theme; utc: boolean };

const STORAGE_KEY = "livejoin.prefs.v1";
const DARK = matchMedia("(prefers-color-scheme: dark)");
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

class Preferences extends EventTarget {
  #settings: Settings = { theme: "system", utc: false };

  constructor() {
    super();
    try {
      const { theme, utc } = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "{}");
      this.#settings = { theme: theme in NEXT ? theme : "system", utc: utc === true };
    } catch {
      // not ours, or damaged: keep the defaults
    }
    DARK.addEventListener("change", () => this.dispatchEvent(new Event("theme")));
    this.#applyTheme();
  }

  get theme(): Theme {
    return this.#settings.theme;
  }

  get dark(): boolean {
    return this.theme === "dark" || (this.theme === "system" && DARK.matches);
  }

  get utc(): boolean {
    return this.#settings.utc;
  }

  nextTheme(): void {
    this.#update({ ...this.#settings, theme: NEXT[this.theme] }, "theme");
  }

  toggleUtc(): void {
    this.#update({ ...this.#settings, utc: !this.utc }, "timezone");
  }

  #update(settings: Settings, event: "theme" | "timezone"): void {
    this.#settings = settings;
    localStorage.setItem(STORAGE_KEY, JSON.stringify(settings));
    this.#applyTheme();
    this.dispatchEvent(new Event(event));
  }

  #applyTheme(): void {
    document.documentElement.dataset["theme"] = this.theme;
  }
}

export const preferences = new Preferences();
