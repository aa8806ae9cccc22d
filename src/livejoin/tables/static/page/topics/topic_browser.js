/** The topic browser: a dialog with the records of a topic, page by page from any position, by a text. */
import { get } from "../../protocol/http.js";
import { nearest } from "../swap/nearest.js";
import { TopicList } from "../swap/topic_list.js";
import { currentUser } from "../ui/auth.js";
import { button, element } from "../ui/dom.js";
import { formatCount, plural, positionText } from "../ui/format.js";
import { preferences } from "../ui/preferences.js";
import { formatTime } from "../ui/time_format.js";
import { BrowserForm } from "./browser_form.js";
import { isNewestFirst, peekPath } from "./peek_query.js";
import { RecordsTable } from "./records_table.js";
class TopicBrowser {
    #dialog = element("dialog", { id: "browser", "aria-labelledby": "browser-title" });
    #topics = new TopicList(() => this.#form.describe());
    #form = new BrowserForm(() => this.#topics.topics, () => this.#seek());
    #table = new RecordsTable();
    #note = element("p", { id: "browser-note", role: "status" });
    #older = button("‹ Older", { title: "Records before these" }, () => this.#page("older"));
    #newer = button("Newer ›", { title: "Records after these" }, () => this.#page("newer"));
    #scroll = element("div", { id: "browser-records", class: "scroll", tabindex: 0, role: "region", "aria-label": "records" });
    #query = null; // what was sought last
    #answer = null; // with what is shown
    #request = new AbortController();
    #reading = ""; // the path that is being read
    constructor() {
        const close = button("✕", { class: "flat", "aria-label": "Close" }, () => this.#dialog.close());
        const modes = ["Parsed", "Raw"].map((name) => button(name, {}, () => this.#setParsed(name === "Parsed")));
        const segments = element("span", { class: "segments", role: "group", "aria-label": "values" }, ...modes);
        this.#scroll.append(this.#table.root);
        this.#dialog.append(element("h2", { id: "browser-title" }, "Records of a topic", close), this.#form.root, element("div", { id: "browser-bar" }, segments, this.#note, this.#older, this.#newer), this.#scroll);
        document.body.append(this.#dialog);
        this.#setParsed(true);
        this.#dialog.addEventListener("close", () => {
            this.#topics.follow(false);
            this.#request.abort();
            this.#setReading("");
        });
        preferences.addEventListener("timezone", () => this.#table.redraw());
    }
    /** Show the newest records of a topic, or those from one on, which is opened; without a topic those shown last. */
    open(topic = "", at) {
        if (topic)
            this.#form.set(topic, at);
        this.#topics.follow(true);
        if (!this.#dialog.open)
            this.#dialog.showModal();
        this.#form.focus();
        if (topic)
            this.#seek(at);
        else if (!this.#form.topic)
            this.#say("Choose a topic.");
    }
    #seek(opened) {
        const query = this.#form.query;
        if (!query)
            return;
        this.#query = query;
        void this.#read(query, opened);
    }
    #page(from) {
        const cursor = this.#answer?.[from];
        if (this.#query && cursor)
            void this.#read({ ...this.#query, position: { from, cursor } });
    }
    async #read(query, opened) {
        const user = currentUser();
        if (user?.role === "viewer")
            return this.#fail("Your role is viewer. Reading records requires the role operator.");
        const path = peekPath(query);
        if (path === this.#reading)
            return; // Enter in a field is a change and a submit
        this.#request.abort(); // livejoin stops reading for it
        const request = (this.#request = new AbortController());
        this.#setReading(path);
        this.#say(`Reading ${query.topic} …`);
        const response = await get(path, request.signal);
        if (request.signal.aborted)
            return;
        this.#setReading("");
        if (response.ok)
            this.#show(query, response.body, opened);
        else
            this.#fail(response.error, response.status === 404 ? this.#suggestion(query.topic) : []);
    }
    #show(query, answer, opened) {
        this.#form.setRetained(answer.partitions);
        const { from } = query.position;
        const turned = from === "older" || from === "newer";
        if (turned && !answer.messages.length && answer.complete) {
            this.#answer = this.#answer && { ...this.#answer, [from]: answer[from] };
            this.#enablePages();
            return this.#say(`Nothing ${from}${query.search && ` with “${query.search}”`}${from === "newer" ? " yet" : ""}.`);
        }
        this.#answer = answer;
        const newestFirst = isNewestFirst(this.#query?.position ?? query.position);
        const reversed = newestFirst !== isNewestFirst(query.position);
        const records = reversed ? answer.messages.toReversed() : answer.messages;
        this.#table.show(records, query.search, opened ? positionText(opened) : "");
        this.#scroll.scrollTop = 0;
        this.#enablePages();
        this.#say(...this.#describe(query, answer, newestFirst));
    }
    /** How many records there are, in which order, and how far a search got. */
    #describe(query, answer, newestFirst) {
        const { messages, complete, scanned, reached } = answer;
        const matching = query.search ? ` with “${query.search}”` : "";
        const order = messages.length > 1 ? `, ${newestFirst ? "newest" : "oldest"} first` : "";
        const found = messages.length ? `${plural(messages.length, "record")}${matching}${order}` : `No records${matching}`;
        if (complete)
            return [query.search ? `${found}; ${formatCount(scanned)} searched.` : `${found}.`];
        const backwards = isNewestFirst(query.position);
        const until = reached ? `, ${backwards ? "back" : "up"} to ${formatTime(Date.parse(reached))}` : "";
        const done = query.search ? "Searched" : "Stopped after reading";
        const goOn = button(query.search ? "Search on" : "Read on", {}, () => this.#page(backwards ? "older" : "newer"));
        return [`${found}. ${done} ${plural(scanned, "record")}${until}. `, goOn];
    }
    #suggestion(topic) {
        const meant = nearest(topic, this.#topics.topics.map(({ name }) => name));
        return meant ? [" ", button(`Use ${meant}`, {}, () => this.open(meant))] : [];
    }
    #fail(error, more = []) {
        this.#answer = null;
        this.#table.show([], "");
        this.#enablePages();
        this.#say(element("span", { class: "bad" }, error), ...more);
    }
    #say(...content) {
        this.#note.replaceChildren(...content);
    }
    #setReading(path) {
        this.#reading = path;
        this.#scroll.setAttribute("aria-busy", String(path !== ""));
        if (path)
            this.#older.disabled = this.#newer.disabled = true;
    }
    #enablePages() {
        this.#older.disabled = !this.#answer?.older;
        this.#newer.disabled = !this.#answer?.newer;
    }
    #setParsed(parsed) {
        this.#table.parsed = parsed;
        for (const mode of this.#dialog.querySelectorAll("#browser-bar .segments button")) {
            mode.setAttribute("aria-pressed", String((mode.textContent === "Parsed") === parsed));
        }
    }
}
let browser = null;
/** Open the topic browser, which is made when it is needed first. */
export function browseTopic(topic = "", at) {
    browser ??= new TopicBrowser();
    browser.open(topic, at);
}
