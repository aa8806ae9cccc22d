/** Layouts as they are stored and sent in links: written, read and checked. What is not well formed is left out. Pure. */

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
/** A layout with the name of its saved view, or "". */
export type NamedLayout = { name: string; layout: Layout };
/** The same as somebody else has written it: anything may be missing. */
export type FoundLayout = { name: string; layout: Partial<Layout> };

export const MOST_NAME_CHARS = 60;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

/** JSON, or undefined if it is none. */
export function parsed(json: string | null): unknown {
  try {
    return JSON.parse(json ?? "null");
  } catch {
    return undefined;
  }
}

/** The well-formed parts of a layout, or null if it is none. */
export function readLayout(found: unknown): Partial<Layout> | null {
  if (!isRecord(found)) return null;
  const layout: Partial<Layout> = {};
  for (const name of ["view", "tab", "wide"] as const) {
    const value = found[name];
    if (typeof value === "string") layout[name] = value;
  }
  for (const name of ["following", "folded"] as const) {
    const value = found[name];
    if (isTexts(value)) layout[name] = value;
  }
  const { split, tables } = found;
  if (isRecord(split)) layout.split = entriesThat(split, isSize);
  if (isRecord(tables)) layout.tables = entriesThat(tables, isConfig);
  return layout;
}

/** Its content is checked once the columns of the table are known. */
const isConfig = (value: unknown): value is Config => isRecord(value);
const isSize = (value: unknown): value is number => typeof value === "number" && value > 0 && Number.isFinite(value);

function entriesThat<T>(record: Record<string, unknown>, test: (value: unknown) => value is T): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter((entry): entry is [string, T] => test(entry[1])));
}

/** All parts of a layout, the missing ones by default. */
export function completeLayout(found: Partial<Layout>, defaults: Layout): Layout {
  return { ...defaults, ...found, split: { ...defaults.split, ...found.split } };
}

/** A name on one line, without blanks around it. */
export const cleanName = (name: unknown): string =>
  typeof name === "string" ? name.replace(/[\s\p{C}]+/gu, " ").trim().slice(0, MOST_NAME_CHARS).trim() : "";

/** Whether both arrange the tables alike, whichever view of the page is open. */
export function sameArrangement(one: Layout, other: Layout): boolean {
  const canonical = ({ view: _view, following, ...rest }: Layout) =>
    JSON.stringify({ ...rest, following: [...following].sort() }, sortedKeys);
  return canonical(one) === canonical(other);
}

function sortedKeys(_key: string, value: unknown): unknown {
  return isRecord(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
}

/** Text as a value in an address: base64 for URLs, of UTF-8. */
export function encode(text: string): string {
  const binary = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The text, or null if it was cut. */
export function decode(encoded: string): string | null {
  try {
    const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
  } catch {
    return null;
  }
}
