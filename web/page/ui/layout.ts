/**
 * The layout that is shown, with the name of its saved view. It is saved in the browser and in the address, so that a
 * link shows the same to somebody else. The address wins over the saved layout. One that came by a link stays in the
 * address alone, until the reader saves it or opens another. Other parameters of the address are left alone.
 *
 * Dispatches `open` when another layout is to be shown, and `change` when it, its name or its origin may have changed.
 */

import { cleanName, completeLayout, decode, encode, parsed, readLayout, sameArrangement } from "./layout_format.js";
import type { FoundLayout, Layout, NamedLayout } from "./layout_format.js";

export type { Layout } from "./layout_format.js";

const STORAGE_KEY = "livejoin.layout.v2";
const PARAMETERS = { layout: "layout", name: "view" }; // of the address
const OWN = "livejoin-own"; // of the history's state: the layout in the address is the reader's own
const SAVE_DELAY_MS = 300;

export class SavedLayout extends EventTarget {
  #defaults: Layout;
  #shown: NamedLayout;
  #opened: Layout; // as it was before the user's changes
  #byLink = false;
  #isSaved: (named: NamedLayout) => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `isSaved` tells whether a layout is a saved view of the reader's own. */
  constructor(defaults: Layout, isSaved: (named: NamedLayout) => boolean) {
    super();
    this.#defaults = defaults;
    this.#isSaved = isSaved;
    this.#shown = this.#stored();
    const linked = this.#linked();
    if (linked) this.#take(linked);
    this.#opened = this.current;
    addEventListener("hashchange", () => this.#openAddress());
  }

  get current(): Readonly<Layout> {
    return this.#shown.layout;
  }

  /** Of the saved view that is shown, perhaps with changes; "" if there is none. */
  get name(): string {
    return this.#shown.name;
  }

  /** The layout as it was opened. */
  get opened(): Readonly<Layout> {
    return this.#opened;
  }

  /** Whether a link brought the layout, and the reader's own is still the one before. */
  get byLink(): boolean {
    return this.#byLink;
  }

  update(change: Partial<Layout>): void {
    this.#shown = { ...this.#shown, layout: { ...this.current, ...change } };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#save(), SAVE_DELAY_MS);
  }

  /** Show a layout of the reader's own. */
  open(name: string, layout: Layout): void {
    this.#byLink = false;
    this.#show({ name, layout });
  }

  reset(): void {
    this.open("", this.#defaults);
  }

  /** Back to what was shown before the link. */
  leaveLink(): void {
    const { name, layout } = this.#stored();
    this.open(name, layout);
  }

  /** What is shown has become the reader's saved view of this name, or is none any more. */
  setName(name: string): void {
    this.#byLink = false;
    this.#shown = { ...this.#shown, name };
    this.#opened = this.current;
    this.#save();
  }

  /** The address of what is shown. */
  get link(): string {
    this.#save();
    return location.href;
  }

  #show(named: NamedLayout): void {
    this.#shown = named;
    this.#opened = named.layout;
    this.#save();
    this.dispatchEvent(new Event("open"));
  }

  #take(linked: NamedLayout): void {
    const own = this.#stored();
    const known = linked.name === own.name && sameArrangement(linked.layout, own.layout);
    this.#byLink = history.state?.[OWN] !== true && !known && !this.#isSaved(linked);
    this.#shown = linked;
  }

  /** A link was opened on the open page. */
  #openAddress(): void {
    const linked = this.#linked();
    if (!linked) return;
    this.#take(linked);
    this.#show(linked);
  }

  #stored(): NamedLayout {
    const found = parsed(localStorage.getItem(STORAGE_KEY));
    const { name } = (found ?? {}) as { name?: unknown };
    return this.#complete({ name: cleanName(name), layout: readLayout(found) ?? {} });
  }

  #linked(): NamedLayout | null {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const layout = readLayout(parsed(decode(parameters.get(PARAMETERS.layout) ?? "")));
    return layout && this.#complete({ name: cleanName(parameters.get(PARAMETERS.name)), layout });
  }

  #complete({ name, layout }: FoundLayout): NamedLayout {
    return { name, layout: completeLayout(layout, this.#defaults) };
  }

  #save(): void {
    clearTimeout(this.#timer);
    const { name, layout } = this.#shown;
    const plain = !name && JSON.stringify(layout) === JSON.stringify(this.#defaults);
    if (!this.#byLink) store(plain ? null : JSON.stringify({ ...layout, name }));
    toAddress(plain ? null : this.#shown, !this.#byLink);
    this.dispatchEvent(new Event("change"));
  }
}

function store(json: string | null): void {
  if (json === null) return localStorage.removeItem(STORAGE_KEY);
  try {
    localStorage.setItem(STORAGE_KEY, json);
  } catch {
    // the browser's storage is full or closed: the address still has it
  }
}

function toAddress(shown: NamedLayout | null, own: boolean): void {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const parameter of Object.values(PARAMETERS)) parameters.delete(parameter);
  if (shown?.name) parameters.set(PARAMETERS.name, shown.name);
  if (shown) parameters.set(PARAMETERS.layout, encode(JSON.stringify(shown.layout)));
  const rest = parameters.toString();
  const state = { ...(history.state as object | null), [OWN]: own };
  history.replaceState(state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
}
