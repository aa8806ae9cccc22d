/** The controls of the topic browser: topic, partition, where to read from, and what to search for. */
import { TopicPicker, describeTopic } from "../swap/topic_picker.js";
import { element, setText } from "../ui/dom.js";
import { formatCount } from "../ui/format.js";
import { preferences } from "../ui/preferences.js";
const SEEKS = {
    newest: "the newest",
    oldest: "the oldest",
    "5m": "5 minutes ago",
    "1h": "1 hour ago",
    "1d": "1 day ago",
    time: "a time …",
    offset: "an offset …",
};
export class BrowserForm {
    root = element("form", { id: "browser-form", autocomplete: "off" });
    #topic = element("input", { id: "browser-topic", spellcheck: "false", autocapitalize: "off", required: true });
    #info = element("p", { id: "browser-topic-info", class: "muted" });
    #partition = element("select", { id: "browser-partition" });
    #seek = element("select", { id: "browser-seek" });
    #time = element("input", { id: "browser-time", type: "datetime-local", step: "0.001" });
    #offset = element("input", { id: "browser-offset", type: "number", min: 0, step: 1 });
    #search = element("input", { id: "browser-search", type: "search", maxlength: 200, placeholder: "in key and value" });
    #picker;
    #topics;
    #retained = new Map(); // of the topic that was read last, by partition
    #read;
    /** `onRead` is called when other records are asked for. */
    constructor(topics, onRead) {
        this.#topics = topics;
        this.#read = onRead;
        this.#build();
        this.#picker = new TopicPicker(this.#topic, topics, () => true);
        this.root.addEventListener("submit", (event) => {
            event.preventDefault();
            onRead();
        });
        this.#topic.addEventListener("change", () => {
            this.#forgetTopic();
            onRead();
        });
        this.#topic.addEventListener("input", () => this.describe());
        this.#partition.addEventListener("change", () => this.#chosen());
        this.#seek.addEventListener("change", () => this.#chosen());
        this.#search.addEventListener("input", () => this.#search.value || onRead());
        preferences.addEventListener("timezone", () => this.#nameZone());
        this.#drawPartitions();
        this.#chosen(false);
    }
    #build() {
        for (const [value, text] of Object.entries(SEEKS))
            this.#seek.append(element("option", { value }, text));
        const field = (label, input, ...more) => element("div", { class: "field", "data-for": input.id }, element("label", { for: input.id }, label), input, ...more);
        this.root.append(element("div", { class: "field pick", "data-for": "browser-topic" }, element("label", { for: "browser-topic" }, "Topic"), this.#topic), field("Partition", this.#partition), field("From", this.#seek), field("Time", this.#time), field("Offset", this.#offset), field("Search", this.#search), element("button", { class: "primary" }, "Read"), this.#info);
        this.#nameZone();
    }
    get topic() {
        return this.#topic.value.trim();
    }
    /** What is asked for; null after marking the field that lacks a value. */
    get query() {
        if (!this.root.reportValidity())
            return null;
        const { topic } = this;
        return { topic, partition: this.#partition.value, search: this.#search.value, position: this.#position() };
    }
    /** Ask for another topic, or for one of its records. */
    set(topic, at) {
        if (topic !== this.topic)
            this.#forgetTopic();
        this.#topic.value = topic;
        this.#drawPartitions();
        this.#partition.value = at ? String(at.partition) : "";
        this.#seek.value = at ? "offset" : "newest";
        this.#offset.value = at ? String(at.offset) : "";
        this.#search.value = "";
        this.#chosen(false);
    }
    focus() {
        (this.topic ? this.#search : this.#topic).focus();
    }
    /** The topics were read anew, or another name was entered. */
    describe() {
        this.#picker.refresh();
        const known = this.#topics().find(({ name }) => name === this.topic);
        setText(this.#info, known ? describeTopic(known) : "");
        this.#drawPartitions();
    }
    /** What Kafka has of the topic that was read. */
    setRetained(partitions) {
        for (const retained of partitions)
            this.#retained.set(retained.partition, retained);
        this.#drawPartitions();
    }
    #forgetTopic() {
        this.#retained.clear();
        this.#partition.value = "";
        if (this.#seek.value === "offset")
            this.#seek.value = "newest";
        this.#chosen(false);
        this.describe();
    }
    #position() {
        const from = this.#seek.value;
        if (from === "newest" || from === "oldest")
            return { from };
        if (from === "offset")
            return { from, offset: this.#offset.value };
        return { from: "time", time: from === "time" ? this.#enteredTime() : from };
    }
    /** The browser gives the local time without a zone. */
    #enteredTime() {
        return new Date(preferences.utc ? `${this.#time.value}Z` : this.#time.value).toISOString();
    }
    /** Show the field that the choice needs, and read if it needs none. */
    #chosen(read = true) {
        const seek = this.#seek.value;
        for (const [input, needed] of [
            [this.#time, seek === "time"],
            [this.#offset, seek === "offset"],
        ]) {
            input.parentElement.hidden = !needed;
            input.disabled = !needed; // a hidden field must not be required
            input.required = needed;
        }
        // each partition has its offsets
        if (seek === "offset" && !this.#partition.value)
            this.#partition.value = "0";
        this.#partition.options[0].disabled = seek === "offset";
        if (!read)
            return;
        const missing = [this.#time, this.#offset].find((input) => input.required && !input.value);
        if (missing)
            missing.focus();
        else
            this.#read();
    }
    #drawPartitions() {
        const known = this.#topics().find(({ name }) => name === this.topic);
        const count = Math.max(known?.partitions ?? 0, 1, ...[...this.#retained.keys()].map((p) => p + 1));
        const texts = ["all", ...Array.from({ length: count }, (_, p) => this.#describePartition(p))];
        const { options } = this.#partition;
        if (texts.length === options.length && texts.every((text, at) => options[at].text === text))
            return;
        const chosen = this.#partition.value;
        const drawn = texts.map((text, at) => element("option", { value: at ? at - 1 : "" }, text));
        this.#partition.replaceChildren(...drawn);
        this.#partition.value = drawn.some(({ value }) => value === chosen) ? chosen : "";
        this.#partition.options[0].disabled = this.#seek.value === "offset";
    }
    #describePartition(partition) {
        const retained = this.#retained.get(partition);
        if (!retained)
            return String(partition);
        const { start, end } = retained;
        return `${partition}: ${start < end ? `offsets ${formatCount(start)} to ${formatCount(end - 1)}` : "empty"}`;
    }
    #nameZone() {
        const label = this.root.querySelector("[data-for=browser-time] label");
        if (label)
            setText(label, preferences.utc ? "Time (UTC)" : "Time (local)");
    }
}
