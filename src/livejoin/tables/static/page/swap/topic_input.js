/** One topic of the form: its field, what is known of the topic, the name that was probably meant, and a peek. */
import { button, element } from "../ui/dom.js";
import { nearest } from "./nearest.js";
import { TopicPicker, describeTopic } from "./topic_picker.js";
export class TopicInput {
    name;
    elements;
    #input;
    #picker;
    #info;
    #topics;
    #described = "";
    constructor({ name, label }, topics, onPeek) {
        this.name = name;
        this.#topics = topics;
        this.#input = element("input", { name, id: name, spellcheck: "false", autocapitalize: "off" });
        this.#info = element("p", { id: `${name}-info`, class: "muted" });
        const peekLabel = `Peek at the records of the ${label.toLowerCase()}`;
        const peek = button("Peek", { "data-peek": name, "aria-label": peekLabel }, () => onPeek(this.#picker.topic));
        this.elements = [
            element("label", { for: name }, `${label} `, element("code", {}, name)),
            element("div", { class: "pick" }, this.#input, peek),
            this.#info,
        ];
        this.#picker = new TopicPicker(this.#input, topics);
        // while typing: on `change` alone the text could move a button between mouse down and mouse up
        for (const type of ["input", "change"])
            this.#input.addEventListener(type, () => this.describe());
    }
    /** The trimmed text; "" keeps the current topic. */
    get value() {
        return this.#input.value.trim();
    }
    set value(topic) {
        this.#input.value = topic;
        this.#input.dispatchEvent(new Event("change", { bubbles: true }));
    }
    /** The topic that a blank field keeps. */
    set current(topic) {
        this.#input.placeholder = topic;
    }
    focus() {
        this.#input.focus();
    }
    /** The topics were read anew, or another one is entered. */
    describe() {
        this.#picker.refresh();
        const name = this.#picker.topic;
        const topic = this.#topics().find((known) => known.name === name);
        const unknown = !topic && Boolean(name) && this.#topics().length > 0;
        const suggestion = unknown ? suggestTopic(name, this.#topics()) : "";
        const text = topic ? describeTopic(topic) : unknown ? `there is no topic ${name}` : "";
        // a button that is replaced while it is pressed gets no click
        if (this.#described === `${text} ${suggestion}`)
            return;
        this.#described = `${text} ${suggestion}`;
        this.#info.replaceChildren(text);
        if (!suggestion)
            return;
        const use = button(suggestion, { class: "link" }, () => {
            this.value = suggestion;
            this.focus();
        });
        this.#info.append("; did you mean ", use, "?");
    }
}
/** The topic that was probably meant, among those that can be joined. */
function suggestTopic(name, topics) {
    const data = topics.filter(({ kind }) => kind === "data").map((topic) => topic.name);
    return nearest(name, data);
}
