/** The columns that rows are sorted by, the most important first, each with its direction. */
import { element } from "../ui/dom.js";
import { arrivalDirection } from "../grid/row_order.js";
import { chosenSort, directionsOf, moved, without, withSort } from "./arrangement.js";
import { addButton, choice, columnChoice, moveButtons, movedKeys, redraw, sectionRoot, small } from "./controls.js";
/** What the order is if no column is chosen. */
function unsortedText(table, config) {
    const direction = arrivalDirection(table, config);
    if (!direction)
        return "The order of the groups";
    return `The order of arrival, ${direction === "desc" ? "newest first" : "newest last"}`;
}
export class SortSection {
    root = sectionRoot("sort");
    settings = ["sort"];
    #apply;
    #focusNext = [];
    constructor(apply) {
        this.#apply = apply;
    }
    show({ table, config, types }) {
        const sort = chosenSort(table, config);
        const change = (changed, focusNext = []) => {
            this.#focusNext = focusNext;
            this.#apply({ sort: changed });
        };
        const rows = sort.map(([name, direction], at) => {
            const directions = directionsOf(types[name] ?? "");
            return element("li", {}, columnChoice(`sort-${at}`, `Sort by, level ${at + 1}`, types, name, (chosen) => change(sort.with(at, [chosen, direction]))), choice(`direction-${at}`, `Direction of ${name}`, directions, direction, (chosen) => change(sort.with(at, [name, chosen]))), ...(sort.length > 1
                ? moveButtons("sort", name, at, sort.length, (to) => change(moved(sort, at, to), movedKeys("sort", at, to)))
                : []), small(`sort-remove-${at}`, "remove", `Do not sort by ${name}`, () => change(without(sort, at), ["sort-add"])));
        });
        const add = addButton("sort-add", "Add a column", "Sort by: add a column", () => {
            this.#focusNext = [`sort-${sort.length}`];
            this.#apply(withSort(table, config, types));
        });
        const keys = this.#focusNext;
        this.#focusNext = [];
        const unsorted = element("p", { class: "muted" }, unsortedText(table, config));
        redraw(this.root, "Sort by", [rows.length ? element("ul", {}, ...rows) : unsorted, add], keys);
    }
}
