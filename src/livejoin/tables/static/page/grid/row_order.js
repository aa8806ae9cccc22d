/** The order of a table's rows: as they arrived, unless the user sorts, and a mode that follows the newest row. */
/** Columns with the order of arrival; of a data table, the time of the newest record behind the row. */
const ARRIVAL = {
    orchestrator_logs: ["ts", "_id"], // lines of one decision share a timestamp
    control_raw: ["_id"], // in the order of reading, whatever the partition
    generations: ["generation"],
    audit: ["_id"],
    orchestrator_status: [], // one row
};
export const arrivalSort = (table, direction) => (ARRIVAL[table] ?? ["_ts"]).map((column) => [column, direction]);
/** Which end the newest row is at; null if the rows are sorted in another way. */
export function arrivalDirection(table, { sort = [] }) {
    const same = (direction) => JSON.stringify(sort) === JSON.stringify(arrivalSort(table, direction));
    return same("desc") ? "desc" : same("asc") ? "asc" : null;
}
/** Groups have an order of their own. */
const isPlain = ({ group_by = [], split_by = [] }) => !group_by.length && !split_by.length;
/**
 * The sort that a configuration should have and has not: rows in no order would be sorted by the text of their id, and
 * groups by the number of their rows. Undefined if it is as it should be.
 */
export function correctedSort(table, config, direction) {
    if (isPlain(config)) {
        const arrival = arrivalSort(table, direction);
        return config.sort?.length || !arrival.length ? undefined : arrival;
    }
    return config.sort?.length && arrivalDirection(table, config) ? [] : undefined;
}
/** A click on a heading: descending, ascending, and in the order of arrival again. `add`: beside the other columns. */
export function nextSort(table, config, column, add, direction) {
    const sort = arrivalDirection(table, config) ? [] : (config.sort ?? []);
    const now = sort.find(([each]) => each === column)?.[1];
    const next = now === "asc" ? [] : [[column, now === "desc" ? "asc" : "desc"]];
    const at = sort.findIndex(([each]) => each === column);
    const sorted = !add ? next : at < 0 ? [...sort, ...next] : sort.toSpliced(at, 1, ...next);
    return sorted.length || !isPlain(config) ? sorted : arrivalSort(table, direction);
}
/** Keeps the last row in view while rows are added, until the user scrolls up. */
export class Tail {
    #table;
    #following = false;
    #atEnd = true;
    #top = 0;
    constructor(table) {
        this.#table = table;
        table.addStyleListener(() => requestAnimationFrame(() => this.#scroll()));
        table.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    }
    set following(following) {
        if (following === this.#following)
            return;
        this.#following = following;
        this.#atEnd = true;
        this.#scroll();
    }
    #scroll() {
        const { scrollHeight, clientHeight, scrollTop } = this.#table;
        if (!this.#following || !this.#atEnd || !this.#table.offsetParent)
            return;
        if (scrollHeight - clientHeight - scrollTop > 1)
            this.#table.scrollTop = scrollHeight;
    }
    #scrolled() {
        const { scrollHeight, clientHeight, scrollTop } = this.#table;
        const up = scrollTop < this.#top;
        this.#top = scrollTop;
        if (scrollHeight - clientHeight - scrollTop < 30)
            this.#atEnd = true;
        else if (up)
            this.#atEnd = false;
    }
}
