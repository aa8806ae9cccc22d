/** Short words to the person, at the edge of the page, gone after a while. */
import { put } from "./dom.js";
const SHOWN_MS = 4000;
export class Told {
    #place;
    #timer;
    constructor(place) {
        this.#place = place;
    }
    say(text) {
        put(this.#place, text);
        this.#place.classList.add("shown");
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#place.classList.remove("shown"), SHOWN_MS);
    }
    /** Say it if something that was asked for fails. */
    trying(what, work) {
        work.catch((error) => this.say(`${what}: ${error instanceof Error ? error.message : String(error)}`));
    }
}
