/** JSON editor of the control message, validated against the published schema while typing. */

import { get } from "../../protocol/http.js";
import { button, element } from "../ui/dom.js";
import { checkMessage } from "./json_schema.js";
import type { Finding, Schema } from "./json_schema.js";

const SCHEMA_PATH = "api/v1/schema/control.json";

export class MessageEditor {
  #textarea: HTMLTextAreaElement;
  #findings: HTMLElement;
  #schema: Schema | null = null;

  constructor(textarea: HTMLTextAreaElement, findings: HTMLElement) {
    this.#textarea = textarea;
    this.#findings = findings;
    textarea.addEventListener("input", () => this.#check());
  }

  async open(message: object): Promise<void> {
    this.#textarea.value = JSON.stringify(message, null, 2);
    if (this.#schema === null) {
      const response = await get<Schema>(SCHEMA_PATH);
      if (response.ok) this.#schema = response.body;
      else this.#show([{ level: "warning", text: `Not validated: the schema is not available. ${response.error}` }]);
    }
    this.#check();
  }

  /** Other fields can be sent now: read the schema again when the editor opens. */
  forgetSchema(): void {
    this.#schema = null;
  }

  /** The text as written, or null if it is not valid. */
  get message(): string | null {
    return this.#check() ? this.#textarea.value : null;
  }

  #check(): boolean {
    if (this.#schema === null) return true;
    const findings = checkMessage(this.#textarea.value, this.#schema);
    this.#show(findings);
    const valid = !findings.some(({ level }) => level === "error");
    this.#textarea.setAttribute("aria-invalid", String(!valid));
    return valid;
  }

  /** The value of a field, if it is text. */
  value(name: string): string {
    const found = this.#parse()?.[name];
    return typeof found === "string" ? found : "";
  }

  setValue(name: string, value: string): void {
    this.#rewrite((fields) => fields.map((field) => (field[0] === name ? [name, value] : field)));
  }

  #rename(from: string, to: string): void {
    this.#rewrite((fields) => fields.map(([name, value]) => [name === from ? to : name, value]));
  }

  #rewrite(change: (fields: [string, unknown][]) => [string, unknown][]): void {
    const fields = this.#parse();
    if (!fields) return;
    this.#textarea.value = JSON.stringify(Object.fromEntries(change(Object.entries(fields))), null, 2);
    this.#check();
    this.#textarea.focus();
  }

  /** The message, if it is a JSON object. */
  #parse(): Record<string, unknown> | null {
    try {
      const parsed: unknown = JSON.parse(this.#textarea.value);
      return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : null;
    } catch {
      return null; // being typed: the findings say where it is not valid
    }
  }

  #show(findings: Finding[]): void {
    const none = element("li", { "data-level": "good" }, "Matches the schema.");
    this.#findings.replaceChildren(...(findings.length ? findings.map((finding) => this.#item(finding)) : [none]));
  }

  #item({ level, text, rename }: Finding): HTMLElement {
    const item = element("li", { "data-level": level }, text);
    if (rename) {
      const [from, to] = rename;
      item.append("; did you mean ", button(to, { class: "link" }, () => this.#rename(from, to)), "?");
    }
    return item;
  }
}
