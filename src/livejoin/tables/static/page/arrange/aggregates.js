/**
 * How the cells of a group become one cell. Offered are those that the engine computes correctly for columns with
 * nulls: its `max` and `median` are not among them, `high` is.
 */
const NUMBERS = [
    ["sum", "sum"],
    ["avg", "average"],
    ["low", "lowest"],
    ["high", "highest"],
    ["count", "number of rows"],
    ["distinct count", "different values"],
];
const OTHERS = [
    ["count", "number of rows"],
    ["distinct count", "different values"],
    ["low", "first in order"],
    ["high", "last in order"],
    ["dominant", "most frequent"],
    ["unique", "if all are alike"],
];
const TIMES = [
    ["high", "newest"],
    ["low", "oldest"],
    ["count", "number of rows"],
    ["distinct count", "different values"],
];
const isNumber = (type) => type === "integer" || type === "float";
const isTime = (type) => type === "datetime" || type === "date";
/** Aggregates and their labels. */
export const aggregatesOf = (type) => isNumber(type) ? NUMBERS : isTime(type) ? TIMES : OTHERS;
/** What the engine computes if nothing is chosen. */
export const defaultAggregate = (type) => (isNumber(type) ? "sum" : "count");
