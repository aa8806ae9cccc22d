/** The message as JSON, for those who want to write it: checked against the published schema as one types. */

import { ask } from "../../protocol/http.js";
import { make } from "../ui/dom.js";
import { check } from "./json_schema.js";
import type { Schema } from "./json_schema.js";

const PUBLISHED = "api/v1/schema/control.json";

export class Editor {
  #text: HTMLTextAreaElement;
  #findings: HTMLElement;
  #schema: Schema | null = null;

  constructor(text: HTMLTextAreaElement, findings: HTMLElement) {
    this.#text = text;
    this.#findings = findings;
    text.addEventListener("input", () => this.#check());
  }

  async open(message: object): Promise<void> {
    this.#text.value = JSON.stringify(message, null, 2);
    if (this.#schema === null) {
      const answer = await ask<Schema>(PUBLISHED);
      if (answer.ok) this.#schema = answer.body;
      else
        this.#say([{ level: "warning", text: `The schema cannot be had, so nothing is checked here. ${answer.why}` }]);
    }
    this.#check();
  }

  /** The message as it was written, or null where it cannot be sent. */
  get message(): string | null {
    return this.#check() ? this.#text.value : null;
  }

  #check(): boolean {
    if (this.#schema === null) return true;
    const found = check(this.#text.value, this.#schema);
    this.#say(found);
    const good = !found.some(({ level }) => level === "error");
    this.#text.setAttribute("aria-invalid", String(!good));
    return good;
  }

  #say(found: { level: string; text: string }[]): void {
    const all = found.length ? found : [{ level: "good", text: "Fits the schema." }];
    this.#findings.replaceChildren(...all.map(({ level, text }) => make("li", { "data-level": level }, text)));
  }
}
