/** A button that opens a list of things to do. The browser closes it: by Escape, or by a click elsewhere. */

import { make } from "./dom.js";

export type Item = { text: string; hint?: string; do: () => void } | { heading: string };

let made = 0;

export function menu(opener: HTMLButtonElement, items: () => Item[]): void {
  const list = make("div", { class: "menu", role: "menu", popover: "auto", id: `menu-${(made += 1)}` });
  opener.setAttribute("aria-haspopup", "menu");
  opener.setAttribute("aria-expanded", "false");
  opener.addEventListener("click", () => {
    list.replaceChildren(...items().map((item) => ("heading" in item ? heading(item.heading) : entry(item, list))));
    document.body.append(list);
    list.showPopover();
    place(list, opener);
    entries(list)[0]?.focus();
  });
  list.addEventListener("toggle", (event) => {
    const open = (event as ToggleEvent).newState === "open";
    opener.setAttribute("aria-expanded", String(open));
    if (open) return;
    list.remove();
    if (document.activeElement === document.body) opener.focus();
  });
  list.addEventListener("keydown", (event) => move(event, list));
}

const heading = (text: string) => make("div", { class: "heading", role: "presentation" }, text);
const entries = (list: HTMLElement) => [...list.querySelectorAll<HTMLElement>("[role=menuitem]")];

function entry(item: { text: string; hint?: string; do: () => void }, list: HTMLElement): HTMLElement {
  const made = make("button", { type: "button", role: "menuitem" }, item.text);
  if (item.hint) made.append(make("span", { class: "soft" }, item.hint));
  made.addEventListener("click", () => {
    list.hidePopover();
    item.do();
  });
  return made;
}

/** Below the opener, inside the window. */
function place(list: HTMLElement, opener: HTMLElement): void {
  const at = opener.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = list;
  const below = at.bottom + 2 + offsetHeight <= innerHeight;
  list.style.left = `${Math.max(4, Math.min(at.left, innerWidth - offsetWidth - 4))}px`;
  list.style.top = `${below ? at.bottom + 2 : Math.max(4, at.top - 2 - offsetHeight)}px`;
}

function move(event: KeyboardEvent, list: HTMLElement): void {
  const all = entries(list);
  const at = all.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all.at(to % all.length)?.focus();
}
