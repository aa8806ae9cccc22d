/** A field for a topic: what there is, searched as one types, with what each topic holds. Any name may be typed. */
import { make } from "../ui/dom.js";
import { age } from "../ui/time_format.js";
import { counted } from "../../protocol/api_types.js";
const MOST = 200; // in the list; who has more types more
export class Picker {
    input;
    #list;
    #topics;
    #at = -1;
    constructor(input, topics) {
        this.input = input;
        this.#topics = topics;
        this.#list = make("div", { class: "options", role: "listbox", id: `${input.id}-options`, hidden: true });
        input.after(this.#list);
        for (const [name, value] of Object.entries({
            role: "combobox",
            "aria-autocomplete": "list",
            "aria-expanded": "false",
            "aria-controls": this.#list.id,
        })) {
            input.setAttribute(name, value);
        }
        input.addEventListener("input", () => this.#open());
        input.addEventListener("click", () => this.#open());
        input.addEventListener("blur", () => this.#close());
        input.addEventListener("keydown", (event) => this.#key(event));
        // the field keeps the focus, so that it does not close before the click
        this.#list.addEventListener("pointerdown", (event) => event.preventDefault());
    }
    /** The topic whose name stands in the field, or that is kept if it is blank. */
    get topic() {
        return this.input.value.trim() || this.input.placeholder;
    }
    #open() {
        const typed = this.input.value.trim().toLowerCase();
        const all = this.#topics().filter(({ kind }) => kind === "data");
        const found = all.filter(({ name }) => name.toLowerCase().includes(typed));
        const chosen = found.length === 1 && found[0]?.name === this.input.value.trim();
        this.#at = -1;
        this.#list.replaceChildren(...found.slice(0, MOST).map((topic) => this.#option(topic)));
        this.#show(found.length > 0 && !chosen);
    }
    #option(topic) {
        const option = make("div", {
            role: "option",
            id: `${this.#list.id}-${topic.name}`,
            "data-name": topic.name,
            "aria-selected": "false",
        });
        option.append(make("span", {}, topic.name), make("span", { class: "soft" }, holds(topic)));
        option.addEventListener("click", () => this.#choose(topic.name));
        return option;
    }
    #choose(name) {
        this.input.value = name;
        this.#close();
        this.input.dispatchEvent(new Event("change", { bubbles: true }));
    }
    #key(event) {
        const options = [...this.#list.children];
        if (event.key === "ArrowDown" && this.#list.hidden)
            this.#open();
        else if (event.key === "ArrowDown")
            this.#mark(options, Math.min(options.length - 1, this.#at + 1));
        else if (event.key === "ArrowUp")
            this.#mark(options, Math.max(0, this.#at - 1));
        else if (event.key === "Enter" && !this.#list.hidden && this.#at >= 0)
            this.#choose(options[this.#at]?.dataset["name"] ?? "");
        else if (event.key === "Escape" && !this.#list.hidden)
            this.#close();
        else
            return;
        event.preventDefault();
        event.stopPropagation(); // an Escape that closes the list does not close the panel
    }
    #mark(options, at) {
        this.#at = at;
        for (const [i, option] of options.entries())
            option.setAttribute("aria-selected", String(i === at));
        options[at]?.scrollIntoView({ block: "nearest" });
        this.input.setAttribute("aria-activedescendant", options[at]?.id ?? "");
    }
    #close() {
        this.#show(false);
    }
    #show(yes) {
        this.#list.hidden = !yes;
        this.input.setAttribute("aria-expanded", String(yes));
    }
}
/** What a topic holds, in a line. */
export function holds({ partitions, records, newest, trouble }) {
    if (trouble)
        return trouble;
    const last = newest ? `newest ${age(Date.now() - Date.parse(newest))} ago` : "empty";
    return [counted(partitions, "partition"), records === null ? "" : counted(records, "record"), last]
        .filter(Boolean)
        .join(", ");
}
