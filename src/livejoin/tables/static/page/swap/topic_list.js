/** The cluster's topics, read again and again while somebody looks at them. */
import { get } from "../../protocol/http.js";
const REFRESH_MS = 3000;
export class TopicList {
    topics = [];
    error = "";
    #onRead;
    #followed = false;
    #reading = false;
    #timer;
    constructor(onRead) {
        this.#onRead = onRead;
    }
    /** Names of the topics that can be joined. */
    get data() {
        return this.topics.filter(({ kind }) => kind === "data").map(({ name }) => name);
    }
    /** Read them now, and then regularly; or stop that. */
    follow(followed) {
        this.#followed = followed;
        clearTimeout(this.#timer);
        if (followed && !this.#reading)
            void this.#read();
    }
    async #read() {
        this.#reading = true;
        const response = await get("api/v1/topics");
        this.#reading = false;
        if (!this.#followed)
            return;
        this.topics = response.ok ? response.body.topics : [];
        this.error = response.ok ? "" : `Topics could not be listed; names can still be entered. ${response.error}`;
        this.#timer = setTimeout(() => void this.#read(), REFRESH_MS);
        this.#onRead();
    }
}
