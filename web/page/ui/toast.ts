/** Short messages at the edge of the page that disappear after a few seconds. */

import { setText } from "./dom.js";

const SHOWN_MS = 4000;
const READING_MS = 60; // for each character of a long text

export class Toast {
  #target: HTMLElement;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(target: HTMLElement) {
    this.#target = target;
  }

  show(text: string): void {
    setText(this.#target, text);
    this.#target.classList.add("shown");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#target.classList.remove("shown"), Math.max(SHOWN_MS, READING_MS * text.length));
  }

  /** Show `prefix` and the error if the work fails. */
  showFailure(prefix: string, work: Promise<unknown>): void {
    work.catch((error: unknown) => this.show(`${prefix}: ${error instanceof Error ? error.message : String(error)}`));
  }
}
