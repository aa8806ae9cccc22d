/** The columns whose values make groups, outermost first: the rows of a grid, or an axis or the series of a chart. */
import { element } from "../ui/dom.js";
import { moved, unusedColumn, without } from "./arrangement.js";
import { kindOf } from "./chart_kinds.js";
import { addButton, columnChoice, moveButtons, movedKeys, redraw, sectionRoot, small } from "./controls.js";
export class GroupSection {
    root;
    settings = ["plugin", "group_by", "split_by"];
    #setting;
    #apply;
    #focusNext = [];
    constructor(setting, apply) {
        this.root = sectionRoot(setting);
        this.#setting = setting;
        this.#apply = apply;
    }
    show({ config, types }) {
        const setting = this.#setting;
        const names = config[setting] ?? [];
        const kind = kindOf(config.plugin);
        const title = setting === "group_by" ? kind.groups : kind.series;
        const change = (changed, focusNext = []) => {
            this.#focusNext = focusNext;
            this.#apply({ [setting]: changed });
        };
        const rows = names.map((name, at) => {
            const choose = (chosen) => change(names.with(at, chosen));
            const move = (to) => change(moved(names, at, to), movedKeys(setting, at, to));
            const remove = () => change(without(names, at), [`${setting}-add`]);
            return element("li", {}, columnChoice(`${setting}-${at}`, `${title}, level ${at + 1}`, types, name, choose), ...(names.length > 1 ? moveButtons(setting, name, at, names.length, move) : []), small(`${setting}-remove-${at}`, "remove", `Remove ${name}`, remove));
        });
        const next = unusedColumn(types, [...(config.group_by ?? []), ...(config.split_by ?? [])]);
        const add = addButton(`${setting}-add`, "Add a column", `${title}: add a column`, () => {
            if (next !== undefined)
                change([...names, next], [`${setting}-${names.length}`]);
        });
        add.disabled = next === undefined;
        const keys = this.#focusNext;
        this.#focusNext = [];
        redraw(this.root, title, [...(rows.length ? [element("ul", {}, ...rows)] : []), add], keys);
    }
}
