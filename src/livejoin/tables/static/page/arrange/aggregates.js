/**
 * How the cells of a group become one cell. Offered are those that the engine computes correctly for columns with
 * nulls: its `max` and `median` are not among them, `high` is.
 */
const NUMBERS = [
    ["sum", "sum"],
    ["avg", "average"],
    ["low", "lowest"],
    ["high", "highest"],
    ["count", "row count"],
    ["distinct count", "different"],
];
const OTHERS = [
    ["count", "row count"],
    ["distinct count", "different"],
    ["low", "first"],
    ["high", "last"],
    ["dominant", "commonest"],
    ["unique", "if all alike"],
];
const TIMES = [
    ["high", "newest"],
    ["low", "oldest"],
    ["count", "row count"],
    ["distinct count", "different"],
];
const isNumber = (type) => type === "integer" || type === "float";
const isTime = (type) => type === "datetime" || type === "date";
/** Aggregates and their labels. */
export const aggregatesOf = (type) => isNumber(type) ? NUMBERS : isTime(type) ? TIMES : OTHERS;
/** What the engine computes if nothing is chosen. */
export const defaultAggregate = (type) => (isNumber(type) ? "sum" : "count");
