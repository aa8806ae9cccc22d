/** Filters as a viewer's configuration holds them: the quick filter over all columns, and every filter in words. */

import { formatTime } from "../ui/time_format.js";
import type { Config, Filter } from "./perspective.js";

/** Types of a table's columns, by name. */
export type Types = Record<string, string>;

/** The quick filter is an expression of this name and its text. A row passes if the expression is 1. */
const QUICK = "any column contains ";
const NUMBER = /^(-?)([\d,]*)(?:\.(\d{0,9}))?$/; // as the grid writes it
const SIGNS: Record<string, string> = { "==": "=", "!=": "≠", ">=": "≥", "<=": "≤" };
const WITHOUT_VALUE = ["is null", "is not null"];
const MOST_CHARS = 60; // of a value

export const isQuick = ([column]: Filter): boolean => column.startsWith(QUICK);

/** The text of the quick filter, "" if there is none. */
export function quickText({ filter = [] }: Config): string {
  return filter.find(isQuick)?.[0].slice(QUICK.length) ?? "";
}

/** The configuration with another quick filter, or with none for "". */
export function withQuickText(config: Config, text: string, types: Types): Config {
  const others = Object.entries(config.expressions ?? {}).filter(([name]) => !name.startsWith(QUICK));
  const filter = (config.filter ?? []).filter((each) => !isQuick(each));
  const name = QUICK + text;
  if (!text) return { filter, expressions: Object.fromEntries(others) };
  return {
    filter: [...filter, [name, "==", 1]],
    expressions: Object.fromEntries([...others, [name, quickExpression(text, types)]]),
  };
}

/** The configuration without one of its filters. */
export function withoutFilter(config: Config, at: number): Config {
  const { filter = [], expressions = {} } = config;
  const [removed] = filter.slice(at, at + 1);
  const kept = Object.entries(expressions).filter(([name]) => !removed || !isQuick(removed) || name !== removed[0]);
  return { filter: filter.filter((_, each) => each !== at), expressions: Object.fromEntries(kept) };
}

/** Whether a column contains the text: texts regardless of case, numbers as they are written. */
function quickExpression(text: string, types: Types): string {
  const numeric = NUMBER.exec(text.trim());
  const tests = Object.entries(types).flatMap(([name, type]) => {
    if (name.startsWith("_")) return [];
    const column = `"${name}"`;
    if (type === "string") return [`match(${column}, '(?i)${pattern(text)}')`];
    if (type === "integer" && numeric) return integerTests(column, numeric);
    if (type === "float" && numeric) return floatTests(column, numeric);
    return [];
  });
  return `if (${tests.join(" or ") || "false"}) 1; else 0;`;
}

function integerTests(column: string, [, sign, whole = "", decimals]: RegExpExecArray): string[] {
  const digits = whole.replaceAll(",", "");
  return digits && !decimals ? [`match(string(${column}), '${sign ? "^-" : ""}${digits}')`] : [];
}

/** The digits as the grid shows them, with two decimals; the engine's own text of a float has six digits only. */
function floatTests(column: string, [, sign, whole = "", decimals = ""]: RegExpExecArray): string[] {
  const digits = whole.replaceAll(",", "") + decimals;
  if (!digits) return [];
  const shown = `floor(round(abs(${column}) * 100) / ${10 ** (2 - decimals.length)})`;
  const exact = `floor(abs(${column}) * ${10 ** decimals.length} + 0.000001)`;
  const number = `string(integer(${decimals.length <= 2 ? shown : exact}))`;
  const found = `match(${number}, '${sign ? "^" : ""}${digits}${decimals ? "$" : ""}')`;
  return [sign ? `(${column} < 0 and ${found})` : found];
}

/** A regular expression for the text itself. Everything but letters and digits is escaped, quotes among it. */
function pattern(text: string): string {
  const escaped = (char: string) => `\\\\x{${char.codePointAt(0)!.toString(16)}}`;
  return [...text].map((char) => (/[a-z0-9]/i.test(char) ? char : escaped(char))).join("");
}

/** A filter in words: `balance ≥ 10`. */
export function describeFilter([column, operator, value]: Filter, types: Types): string {
  if (column.startsWith(QUICK)) return column;
  const sign = SIGNS[operator] ?? operator;
  return WITHOUT_VALUE.includes(operator) ? `${column} ${sign}` : `${column} ${sign} ${valueText(value, types[column])}`;
}

export function valueText(value: unknown, type: string | undefined): string {
  if (Array.isArray(value)) return value.map((each) => valueText(each, type)).join(", ");
  if (value === null || value === undefined) return "…"; // not chosen yet
  if (type === "datetime" && typeof value === "number") return formatTime(value);
  const text = typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 20 }) : String(value);
  if (!text) return '""';
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text;
}
