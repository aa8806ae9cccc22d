/** Shows the newest messages of a topic, raw or as a source would parse them. */

import type { TopicPeek, TopicRecord } from "../../protocol/api_types.js";
import { get } from "../../protocol/http.js";
import { button, element } from "../ui/dom.js";
import { formatTime } from "../ui/time_format.js";

const COUNT = 10;

export class TopicPeekView {
  #target: HTMLElement;
  #parsed = true;

  constructor(target: HTMLElement) {
    this.#target = target;
  }

  async load(topic: string): Promise<void> {
    this.#target.hidden = false;
    this.#target.replaceChildren(element("p", { class: "muted" }, `Reading ${topic} …`));
    const response = await get<TopicPeek>(`api/v1/topics/${encodeURIComponent(topic)}/peek?count=${COUNT}`);
    if (response.ok) this.#draw(response.body);
    else this.#target.replaceChildren(element("p", { class: "bad" }, response.error));
  }

  #draw(peek: TopicPeek): void {
    const { topic, complete, messages } = peek;
    const show = (parsed: boolean) => () => {
      this.#parsed = parsed;
      this.#draw(peek);
    };
    const modes = element(
      "span",
      { class: "segments" },
      button("Parsed", { "aria-pressed": this.#parsed }, show(true)),
      button("Raw", { "aria-pressed": !this.#parsed }, show(false)),
    );
    const hide = () => (this.#target.hidden = true);
    const close = button("✕", { class: "flat", "aria-label": "Close the messages" }, hide);
    const heading = element("h3", {}, `Newest of ${topic}`, element("span", { class: "spacer" }), modes, close);
    const notes = [
      ...(messages.length ? [] : ["No records yet."]),
      ...(complete ? [] : ["Timed out before all partitions were read."]),
    ];
    this.#target.replaceChildren(
      heading,
      ...notes.map((note) => element("p", { class: "muted" }, note)),
      ...messages.map((message) => this.#message(message)),
    );
  }

  #message({ partition, offset, timestamp, key, value, parsed, reason }: TopicRecord): HTMLElement {
    const time = timestamp ? formatTime(Date.parse(timestamp)) : "no timestamp";
    const position = `${partition}-${offset}, ${time}${key === null ? "" : `, key ${key}`}`;
    const heading = element("div", { class: "muted" }, position);
    return element("div", { class: "message" }, heading, this.#content(value, parsed, reason));
  }

  #content(value: string | null, parsed: TopicRecord["parsed"], reason: string | null): HTMLElement {
    if (!this.#parsed) return element("pre", { class: "raw" }, value ?? "(null)");
    if (parsed === null) return element("p", { class: "bad" }, reason ?? "");
    const fields = Object.entries(parsed).map(([name, field]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, name),
        element("td", {}, typeof field === "string" ? field : JSON.stringify(field)),
      ),
    );
    return element("table", { class: "plain" }, element("tbody", {}, ...fields));
  }
}
