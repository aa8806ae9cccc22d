/** Combobox for a topic: filters the known topics while typing and describes each. Any name may be entered. */

import type { TopicInfo } from "../../protocol/api_types.js";
import { element, setText } from "../ui/dom.js";
import { plural } from "../ui/format.js";
import { formatAge } from "../ui/time_format.js";

const MAX_OPTIONS = 200;

export class TopicPicker {
  readonly input: HTMLInputElement;
  #list: HTMLElement;
  #topics: () => TopicInfo[];
  #isOffered: (topic: TopicInfo) => boolean;
  #active = -1; // index of the highlighted option

  /** By default those topics are offered that can be joined. */
  constructor(
    input: HTMLInputElement,
    topics: () => TopicInfo[],
    isOffered: (topic: TopicInfo) => boolean = ({ kind }) => kind === "data",
  ) {
    this.input = input;
    this.#topics = topics;
    this.#isOffered = isOffered;
    this.#list = element("div", { class: "options", role: "listbox", id: `${input.id}-options`, hidden: true });
    input.after(this.#list);
    for (const [name, value] of Object.entries({
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.#list.id,
    })) {
      input.setAttribute(name, value);
    }
    input.addEventListener("input", () => this.#open());
    input.addEventListener("click", () => this.#open());
    input.addEventListener("blur", () => this.#setOpen(false));
    input.addEventListener("keydown", (event) => this.#onKey(event));
    // keep the focus in the field, or `blur` would close the list before the click
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  /** The entered topic, or the current one if the field is blank. */
  get topic(): string {
    return this.input.value.trim() || this.input.placeholder;
  }

  #open(): void {
    const typed = this.input.value.trim();
    const matches = this.#topics().filter(
      (topic) => this.#isOffered(topic) && topic.name.toLowerCase().includes(typed.toLowerCase()),
    );
    const complete = matches.length === 1 && matches[0]?.name === typed;
    this.#active = -1;
    this.#list.replaceChildren(...matches.slice(0, MAX_OPTIONS).map((topic) => this.#option(topic)));
    this.#setOpen(matches.length > 0 && !complete);
  }

  /** The topics were read anew: describe those in an open list by it. */
  refresh(): void {
    if (this.#list.hidden) return;
    for (const option of this.#list.children) {
      const topic = this.#topics().find(({ name }) => name === (option as HTMLElement).dataset["name"]);
      if (topic) setText(option.lastElementChild!, describeTopic(topic));
    }
  }

  #option(topic: TopicInfo): HTMLElement {
    const option = element("div", {
      role: "option",
      id: `${this.#list.id}-${topic.name}`,
      "data-name": topic.name,
      "aria-selected": "false",
    });
    option.append(element("span", {}, topic.name), element("span", { class: "muted" }, describeTopic(topic)));
    option.addEventListener("click", () => this.#choose(topic.name));
    return option;
  }

  #choose(name: string): void {
    this.input.value = name;
    this.#setOpen(false);
    this.input.dispatchEvent(new Event("change", { bubbles: true }));
  }

  #onKey(event: KeyboardEvent): void {
    const options = [...this.#list.children] as HTMLElement[];
    const closed = this.#list.hidden;
    if (event.key === "ArrowDown" && closed) this.#open();
    else if (event.key === "ArrowDown") this.#activate(options, Math.min(options.length - 1, this.#active + 1));
    else if (event.key === "ArrowUp") this.#activate(options, Math.max(0, this.#active - 1));
    else if (event.key === "Enter" && !closed && this.#active >= 0)
      this.#choose(options[this.#active]?.dataset["name"] ?? "");
    else if (event.key === "Escape" && !closed) this.#setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation(); // an Escape that closes the list must not close the panel
  }

  #activate(options: HTMLElement[], index: number): void {
    this.#active = index;
    for (const [i, option] of options.entries()) option.setAttribute("aria-selected", String(i === index));
    options[index]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[index]?.id ?? "");
  }

  #setOpen(open: boolean): void {
    this.#list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
  }
}

/** `1 partition, 300 records, newest 2.0 s ago`, or why that is unknown. */
export function describeTopic({ partitions, records, newest, trouble }: TopicInfo): string {
  if (trouble) return trouble;
  const age = newest ? `newest ${formatAge(Date.now() - Date.parse(newest))} ago` : "empty";
  return [plural(partitions, "partition"), records === null ? "" : plural(records, "record"), age]
    .filter(Boolean)
    .join(", ");
}
