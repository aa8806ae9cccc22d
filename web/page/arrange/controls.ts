/** Controls that the sections of the Arrange panel share. Each has a key, by which it keeps the focus. */

import { button, element } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import type { IconName } from "../ui/icons.js";
import type { Types } from "../grid/filters.js";
import type { Config } from "../grid/perspective.js";
import { isInternal } from "./arrangement.js";

/** What a section shows. */
export type Arranged = { table: string; config: Config; types: Types };
export type Apply = (change: Config) => void;

export interface Section {
  readonly root: HTMLElement;
  readonly settings: readonly (keyof Config)[]; // that it shows
  show(arranged: Arranged): void;
}

export function sectionRoot(name: string): HTMLElement {
  return element("div", { class: "part", role: "group", "data-part": name });
}

/** Replace the content of a section. The focus goes to the first of `keys` that exists, or stays where it was. */
export function redraw(root: HTMLElement, title: string, content: (Node | string)[], keys: string[] = []): void {
  const focused = document.activeElement as HTMLElement | null;
  const kept = focused && root.contains(focused) ? [focused.dataset["key"] ?? ""] : [];
  root.setAttribute("aria-label", title);
  root.replaceChildren(element("h3", {}, title), ...content);
  const control = (key: string) => root.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]:enabled`);
  const found = [...keys, ...kept].map(control).find((each) => each !== null);
  if (found) found.focus();
  else if (kept.length) root.querySelector<HTMLElement>(":is(button, select, input):enabled")?.focus();
}

export function choice(
  key: string,
  label: string,
  options: [string, string][],
  chosen: string,
  onChange: (value: string) => void,
): HTMLSelectElement {
  const select = element("select", { "data-key": key, "aria-label": label });
  // the expert panel, or a link, may have chosen something that is not offered here
  const known = options.some(([value]) => value === chosen);
  for (const [value, text] of known ? options : [...options, [chosen, chosen] as const]) {
    select.append(element("option", { value }, text));
  }
  select.value = chosen;
  select.addEventListener("change", () => onChange(select.value));
  return select;
}

/** A list of columns, livejoin's own last. `none` is the text of an empty choice. */
export function columnChoice(
  key: string,
  label: string,
  types: Types,
  chosen: string,
  onChange: (name: string) => void,
  none?: string,
): HTMLSelectElement {
  const names = Object.keys(types);
  const ordered = [...names.filter((name) => !isInternal(name)), ...names.filter(isInternal)];
  const options = ordered.map((name): [string, string] => [name, name]);
  return choice(key, label, none === undefined ? options : [["", none], ...options], chosen, onChange);
}

export function small(key: string, name: IconName, label: string, onClick: () => void): HTMLButtonElement {
  const created = button("", { class: "flat icon-only", title: label, "aria-label": label, "data-key": key }, onClick);
  created.append(icon(name));
  return created;
}

/** Buttons that move a row of a list up and down. `onMove` gets its new place. */
export function moveButtons(
  key: string,
  label: string,
  at: number,
  count: number,
  onMove: (to: number) => void,
): Node[] {
  const up = small(`${key}-up-${at}`, "up", `Move ${label} up`, () => onMove(at - 1));
  const down = small(`${key}-down-${at}`, "down", `Move ${label} down`, () => onMove(at + 1));
  up.disabled = at === 0;
  down.disabled = at === count - 1;
  return [up, down];
}

/** Where the focus goes after a row was moved: the same button, or the other one at an end. */
export const movedKeys = (key: string, from: number, to: number): string[] =>
  to < from ? [`${key}-up-${to}`, `${key}-down-${to}`] : [`${key}-down-${to}`, `${key}-up-${to}`];

export function addButton(key: string, text: string, label: string, onClick: () => void): HTMLButtonElement {
  const created = button(text, { class: "flat add", "aria-label": label, "data-key": key }, onClick);
  created.prepend(icon("add"));
  return created;
}
