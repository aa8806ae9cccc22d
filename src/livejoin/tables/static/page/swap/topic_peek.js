/** The newest messages of a topic, raw or as a source would take them. */
import { ask } from "../../protocol/http.js";
import { button, make } from "../ui/dom.js";
import { moment } from "../ui/time_format.js";
const COUNT = 10;
export class Peek {
    #place;
    #parsed = true;
    #answer = null;
    constructor(place) {
        this.#place = place;
    }
    async look(topic) {
        this.#place.hidden = false;
        this.#place.replaceChildren(make("p", { class: "soft" }, `Reading ${topic} …`));
        const answer = await ask(`api/v1/topics/${encodeURIComponent(topic)}/peek?count=${COUNT}`);
        this.#answer = answer.ok ? answer.body : null;
        if (answer.ok)
            this.#draw(answer.body);
        else
            this.#place.replaceChildren(make("p", { class: "bad" }, answer.why));
    }
    #draw({ topic, complete, messages }) {
        const choose = (parsed) => () => {
            this.#parsed = parsed;
            if (this.#answer)
                this.#draw(this.#answer);
        };
        const how = make("span", { class: "segments" }, button("Parsed", { "aria-pressed": this.#parsed }, choose(true)), button("Raw", { "aria-pressed": !this.#parsed }, choose(false)));
        const close = button("✕", { class: "quiet", "aria-label": "Close the messages" }, () => (this.#place.hidden = true));
        const head = make("h3", {}, `Newest of ${topic}`, make("span", { class: "gap" }), how, close);
        const none = messages.length ? [] : [make("p", { class: "soft" }, "No records yet.")];
        const partly = complete ? [] : [make("p", { class: "soft" }, "There was no time to read all partitions.")];
        this.#place.replaceChildren(head, ...none, ...partly, ...messages.map((one) => this.#message(one)));
    }
    #message({ partition, offset, timestamp, key, value, parsed, reason }) {
        const when = timestamp ? moment(Date.parse(timestamp)) : "no time";
        const head = make("div", { class: "soft" }, `${partition}-${offset}, ${when}${key === null ? "" : `, key ${key}`}`);
        if (!this.#parsed)
            return make("div", { class: "message" }, head, make("pre", { class: "raw" }, value ?? "(null)"));
        if (parsed === null)
            return make("div", { class: "message" }, head, make("p", { class: "bad" }, reason ?? ""));
        const fields = Object.entries(parsed).map(([name, found]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, typeof found === "string" ? found : JSON.stringify(found))));
        return make("div", { class: "message" }, head, make("table", { class: "plain" }, make("tbody", {}, ...fields)));
    }
}
