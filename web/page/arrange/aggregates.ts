/**
 * How the cells of a group become one cell. Offered are those that the engine computes correctly for columns with
 * nulls: its `max` and `median` are not among them, `high` is.
 */

const NUMBERS: [string, string][] = [
  ["sum", "sum"],
  ["avg", "average"],
  ["low", "lowest"],
  ["high", "highest"],
  ["count", "number of rows"],
  ["distinct count", "different values"],
];
const OTHERS: [string, string][] = [
  ["count", "number of rows"],
  ["distinct count", "different values"],
  ["low", "first in order"],
  ["high", "last in order"],
  ["dominant", "most frequent"],
  ["unique", "if all are alike"],
];
const TIMES: [string, string][] = [
  ["high", "newest"],
  ["low", "oldest"],
  ["count", "number of rows"],
  ["distinct count", "different values"],
];

const isNumber = (type: string) => type === "integer" || type === "float";
const isTime = (type: string) => type === "datetime" || type === "date";

/** Aggregates and their labels. */
export const aggregatesOf = (type: string): [string, string][] =>
  isNumber(type) ? NUMBERS : isTime(type) ? TIMES : OTHERS;

/** What the engine computes if nothing is chosen. */
export const defaultAggregate = (type: string): string => (isNumber(type) ? "sum" : "count");
