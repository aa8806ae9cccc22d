/** The way back: one button, for as long as the generation that was live before stands by. */

import { ask } from "../../protocol/http.js";
import { byId, put } from "../ui/dom.js";
import { span } from "../ui/time_format.js";
import { choice } from "../../protocol/api_types.js";
import type { Generation } from "../../protocol/api_types.js";

export class WayBack {
  #button = byId<HTMLButtonElement>("rollback");
  #live: Generation | undefined;
  #standby: Generation | undefined;
  #until: number | null = null; // by the page's own clock that only goes on
  #forbidden = "";

  /** `back` is told which generation is live: two who go back at the same time do not undo each other. */
  constructor(back: (expected: number | null) => void) {
    this.#button.addEventListener("click", () => back(this.#live?.generation ?? null));
    setInterval(() => this.#show(), 1000);
  }

  forbid(why: string): void {
    this.#forbidden = why;
    this.#show();
  }

  generations(live: Generation | undefined, standby: Generation | undefined): void {
    const other = standby?.generation !== this.#standby?.generation || live?.generation !== this.#live?.generation;
    this.#live = live;
    this.#standby = standby;
    if (other) this.#until = null;
    if (other && standby) void this.#ask();
    this.#show();
  }

  async #ask(): Promise<void> {
    const answer = await ask<{ standbySeconds: number | null }>("api/v1/figures");
    if (answer.ok) {
      const left = answer.body.standbySeconds;
      this.#until = left === null ? null : performance.now() + 1000 * left;
    }
    this.#show();
  }

  #show(): void {
    const standby = this.#standby;
    this.#button.disabled = !standby || Boolean(this.#forbidden);
    this.#button.title = this.#forbidden;
    put(this.#button, standby ? `Roll back to generation ${standby.generation}` : "Roll back");
    const left = this.#until === null ? "" : ` for another ${span(Math.max(0, this.#until - performance.now()))}`;
    const none = "No generation stands by: there was no swap yet, or its time is over.";
    put(byId("rollback-to"), standby ? `${choice(standby)}, standing by${left}` : none);
  }
}
