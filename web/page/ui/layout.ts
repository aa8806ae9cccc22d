/**
 * The user's layout, saved in the browser and in the address, so that a link shows the same view to somebody else.
 * The address wins over the saved layout. Other parameters of the address are left alone.
 */

import type { Config } from "../grid/perspective.js";

export type Layout = {
  view: string;
  tab: string;
  wide: string; // the table that fills the workspace, or ""
  following: string[]; // tables that follow their newest row
  folded: string[]; // areas of the workspace of which only the heading is shown
  split: Record<string, number>;
  tables: Record<string, Config>;
};

const STORAGE_KEY = "livejoin.layout.v2";
const PARAMETER = "layout"; // of the address
const SAVE_DELAY_MS = 300;

export class SavedLayout {
  #defaults: Layout;
  #current: Layout;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(defaults: Layout) {
    this.#defaults = defaults;
    const found = fromAddress() ?? parse(localStorage.getItem(STORAGE_KEY)) ?? {};
    this.#current = { ...defaults, ...found, split: { ...defaults.split, ...found.split } };
  }

  get current(): Readonly<Layout> {
    return this.#current;
  }

  update(change: Partial<Layout>): void {
    this.#current = { ...this.#current, ...change };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#save(), SAVE_DELAY_MS);
  }

  reset(): void {
    this.update(this.#defaults);
  }

  #save(): void {
    const json = JSON.stringify(this.#current);
    if (json === JSON.stringify(this.#defaults)) {
      localStorage.removeItem(STORAGE_KEY);
      toAddress(null);
    } else {
      localStorage.setItem(STORAGE_KEY, json);
      toAddress(json);
    }
  }
}

function fromAddress(): Partial<Layout> | null {
  const encoded = new URLSearchParams(location.hash.slice(1)).get(PARAMETER);
  if (encoded === null) return null;
  try {
    const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
    return parse(new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0))));
  } catch {
    return null; // a truncated link: fall back to the user's own layout
  }
}

function toAddress(json: string | null): void {
  const parameters = new URLSearchParams(location.hash.slice(1));
  parameters.delete(PARAMETER);
  if (json !== null) {
    const binary = String.fromCharCode(...new TextEncoder().encode(json));
    parameters.set(PARAMETER, btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
  }
  const rest = parameters.toString();
  history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
}

function parse(json: string | null): Partial<Layout> | null {
  try {
    const found: unknown = JSON.parse(json ?? "null");
    return typeof found === "object" ? found : null;
  } catch {
    return null;
  }
}
