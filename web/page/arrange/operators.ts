/** Filters as a person writes them: which operators a type has, and values as the text of an input. Pure. */

import type { Filter } from "../grid/perspective.js";

/** In which times are shown and typed. */
export type Zone = "UTC" | "local";

/** A row of the filter section. It becomes a filter once it has a value. */
export type FilterDraft = { column: string; operator: string; text: string };

const WITHOUT_VALUE = ["is null", "is not null"];
const LISTS = ["in", "not in"];
const ZONE = /Z|[+-]\d\d:?\d\d$/; // the engine reads a time without one as UTC

const NULLS: [string, string][] = [
  ["is null", "has no value"],
  ["is not null", "has a value"],
];
const TEXT: [string, string][] = [
  ["contains", "contains"],
  ["not contains", "does not contain"],
  ["==", "is"],
  ["!=", "is not"],
  ["begins with", "begins with"],
  ["ends with", "ends with"],
  ["in", "is one of"],
  ["not in", "is none of"],
  ...NULLS,
];
const NUMBERS: [string, string][] = [
  [">", ">"],
  [">=", "≥"],
  ["<", "<"],
  ["<=", "≤"],
  ["==", "="],
  ["!=", "≠"],
  ...NULLS,
];
const TIMES: [string, string][] = [
  [">=", "from"],
  [">", "after"],
  ["<", "before"],
  ["<=", "until"],
  ["==", "is"],
  ...NULLS,
];
const BOOLEANS: [string, string][] = [["==", "is"], ...NULLS];
const BY_TYPE: Record<string, [string, string][]> = {
  integer: NUMBERS,
  float: NUMBERS,
  datetime: TIMES,
  date: TIMES,
  boolean: BOOLEANS,
};

/** Operators and their labels, the most useful first. */
export const operatorsOf = (type: string): [string, string][] => BY_TYPE[type] ?? TEXT;

export const needsValue = (operator: string): boolean => !WITHOUT_VALUE.includes(operator);
export const takesList = (operator: string): boolean => LISTS.includes(operator);

/** The filter, or null as long as the value is missing or not of the column's type. */
export function readFilter({ column, operator, text }: FilterDraft, type: string, zone: Zone): Filter | null {
  if (!needsValue(operator)) return [column, operator, null];
  if (!takesList(operator)) {
    const value = readValue(text, type, zone);
    return value === null ? null : [column, operator, value];
  }
  const values = text.split("\n").flatMap((line) => readValue(line.trim(), type, zone) ?? []);
  return values.length ? [column, operator, values] : null;
}

function readValue(text: string, type: string, zone: Zone): string | number | boolean | null {
  if (!text.trim()) return null;
  if (type === "boolean") return text === "true";
  if (type === "integer" || type === "float") {
    const number = Number(text);
    const valid = Number.isFinite(number) && (type === "float" || Number.isInteger(number));
    return valid ? number : null;
  }
  if (type === "datetime") {
    const ms = Date.parse(zone === "UTC" ? `${text}Z` : text);
    return Number.isNaN(ms) ? null : ms;
  }
  return text;
}

/** The draft of a filter that a configuration has. */
export function draftOf([column, operator, value]: Filter, type: string, zone: Zone): FilterDraft {
  const text = Array.isArray(value)
    ? value.map((each) => writeValue(each, type, zone)).join("\n")
    : writeValue(value, type, zone);
  return { column, operator, text };
}

function writeValue(value: unknown, type: string, zone: Zone): string {
  if (value === null || value === undefined) return "";
  const ms = typeof value === "number" ? value : Date.parse(ZONE.test(String(value)) ? String(value) : `${value}Z`);
  if (type !== "datetime" || Number.isNaN(ms)) return String(value);
  const shifted = new Date(zone === "UTC" ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, -1); // an input without a time zone
}

/** The same draft for another column: operator and value are kept where the type allows it. */
export function withColumn(draft: FilterDraft, column: string, oldType: string, newType: string): FilterDraft {
  const known = operatorsOf(newType).some(([operator]) => operator === draft.operator);
  const operator = known ? draft.operator : operatorsOf(newType)[0]![0];
  return { column, operator, text: oldType === newType ? draft.text : "" };
}
