/** JSON editor of the control message, validated against the published schema while typing. */
import { get } from "../../protocol/http.js";
import { element } from "../ui/dom.js";
import { checkMessage } from "./json_schema.js";
const SCHEMA_PATH = "api/v1/schema/control.json";
export class MessageEditor {
    #textarea;
    #findings;
    #schema = null;
    constructor(textarea, findings) {
        this.#textarea = textarea;
        this.#findings = findings;
        textarea.addEventListener("input", () => this.#check());
    }
    async open(message) {
        this.#textarea.value = JSON.stringify(message, null, 2);
        if (this.#schema === null) {
            const response = await get(SCHEMA_PATH);
            if (response.ok)
                this.#schema = response.body;
            else
                this.#show([{ level: "warning", text: `Not validated: the schema is not available. ${response.error}` }]);
        }
        this.#check();
    }
    /** The text as written, or null if it is not valid. */
    get message() {
        return this.#check() ? this.#textarea.value : null;
    }
    #check() {
        if (this.#schema === null)
            return true;
        const findings = checkMessage(this.#textarea.value, this.#schema);
        this.#show(findings);
        const valid = !findings.some(({ level }) => level === "error");
        this.#textarea.setAttribute("aria-invalid", String(!valid));
        return valid;
    }
    #show(findings) {
        const all = findings.length ? findings : [{ level: "good", text: "Matches the schema." }];
        this.#findings.replaceChildren(...all.map(({ level, text }) => element("li", { "data-level": level }, text)));
    }
}
