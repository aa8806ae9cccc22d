/** What is joined, which decides which tables and topic fields there are: read at the start, and after each cutover. */
import { get } from "../../protocol/http.js";
const RETRY_MS = 2000;
export class CurrentSpec {
    current = null;
    /** Resolves once there is one. */
    first;
    #found;
    #onChange;
    #reads = 0;
    constructor(onChange) {
        this.#onChange = onChange;
        this.first = new Promise((resolve) => (this.#found = resolve));
    }
    async read() {
        const number = (this.#reads += 1);
        const response = await get("api/v1/spec");
        if (number !== this.#reads)
            return; // a later read knows better
        if (!response.ok)
            return void setTimeout(() => void this.read(), RETRY_MS);
        const { sources, driver, lookups, control } = response.body;
        const before = this.current;
        this.current = response.body;
        this.#found(response.body);
        const same = [before?.sources, before?.driver, before?.lookups, before?.control];
        if (JSON.stringify(same) !== JSON.stringify([sources, driver, lookups, control]))
            this.#onChange(response.body);
    }
}
