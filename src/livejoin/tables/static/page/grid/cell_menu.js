/** The menu of a cell, by right click: filter by its value, or copy it. */
import { describeFilter, valueText } from "./filters.js";
const ORDERED = ["integer", "float", "datetime"];
/** The cell at an event's place in the grid. */
export function targetOf(grid, event) {
    const { regular_table: table, model } = grid;
    const cell = event.target instanceof Element ? event.target.closest("tbody td, tbody th") : null;
    const meta = cell && table.getMeta(cell);
    if (!model || !meta || meta.y === undefined)
        return null;
    const { group_by = [], split_by = [] } = model._config;
    if (group_by.length) {
        const path = model._ids[meta.y - (meta.y0 ?? 0)] ?? [];
        return path.length ? { values: path.map((value, at) => [group_by[at] ?? "", value]), group: true } : null;
    }
    const column = model._column_paths[meta.x ?? -1];
    return column && !split_by.length ? { values: [[column, meta.user ?? null]], group: false } : null;
}
/** `filter` is called with the filters that the viewer should have. */
export function cellMenu(target, config, types, actions) {
    const equal = target.values.map(([column, value]) => compare(column, "==", value));
    const add = (filters) => ({
        label: filters.map((each) => describeFilter(each, types)).join(", "),
        hint: "",
        action: () => actions.filter(withFilters(config.filter ?? [], filters)),
    });
    const [[column, value] = ["", null]] = target.values;
    if (target.group)
        return [{ heading: "Only this group" }, add(equal)];
    const ordered = value !== null && ORDERED.includes(types[column] ?? "");
    const operators = ["!=", ...(ordered ? [">=", "<="] : [])];
    const text = value === null ? "" : types[column] === "datetime" ? valueText(value, "datetime") : String(value);
    return [
        { heading: "Filter by this value" },
        add(equal),
        ...operators.map((operator) => add([compare(column, operator, value)])),
        { heading: "Cell" },
        { label: "Copy the value", hint: "", action: () => actions.copy(text) },
    ];
}
function compare(column, operator, value) {
    if (value !== null)
        return [column, operator, value];
    return [column, operator === "==" ? "is null" : "is not null", null];
}
/** A column equals one value at most: another one takes its place. */
function withFilters(present, added) {
    const kind = (operator) => (operator === "is null" ? "==" : operator);
    const same = ([a, by], [b, other]) => a === b && kind(by) === kind(other);
    return [...present.filter((each) => !added.some((other) => same(each, other))), ...added];
}
