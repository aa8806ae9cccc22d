/** A button that asks livejoin for another join, and what came of it. */

import { Component, computed, inject, signal } from "@angular/core";
import type { Outcome, Row } from "livejoin";
import { LiveTables } from "./live-tables";

@Component({
  selector: "app-swap",
  template: `
    <button type="button" [disabled]="sending() || user()?.role !== 'operator'" (click)="swap()">
      Switch to {{ join() }} join
    </button>
    <span role="status">{{ row()?.["message"] }}</span>
    <output>{{ outcome() }}</output>
    @if (user()?.role === "viewer") {
      <span>Your role is viewer; a swap requires operator.</span>
    }
  `,
  styles: `
    :host { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; }
  `,
})
export class Swap {
  readonly #tables = inject(LiveTables);
  readonly #status = this.#tables.follow("orchestrator_status");
  readonly #messages = this.#tables.follow("control_raw");
  readonly #sent = signal<(Outcome & { join: string }) | null>(null);
  readonly #error = signal("");
  protected readonly user = this.#tables.user;
  protected readonly row = computed(() => this.#status.rows()[0]); // it has exactly one
  protected readonly join = computed(() => (this.row()?.["joinType"] === "inner" ? "left" : "inner"));
  protected readonly sending = signal(false);

  /** The table has the newest outcome of each message: a build that was accepted may fail later. */
  protected readonly outcome = computed(() => {
    const sent = this.#sent();
    if (!sent) return this.#error();
    const isSent = (row: Row) => row["partition"] === sent.partition && row["offset"] === sent.offset;
    const { outcome, reason } = this.#messages.rows().find(isSent) ?? sent;
    return `${sent.join} join: ${outcome}${reason ? `: ${reason}` : ""}`;
  });

  async swap(): Promise<void> {
    const join = this.join();
    this.sending.set(true);
    try {
      this.#sent.set({ ...(await this.#tables.control({ joinType: join })), join });
    } catch (error) {
      this.#sent.set(null);
      this.#error.set((error as Error).message);
    } finally {
      this.sending.set(false);
    }
  }
}
