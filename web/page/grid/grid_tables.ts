/** The replicas of all tables. Frames are applied in order, one after the other; grids that show other rows move together. */

import { atOnce } from "./view_transition.js";
import type { Frame } from "../../protocol/frame.js";
import type { Part, Replica } from "./grid_table.js";

export type Row = Record<string, unknown>;

export class Replicas {
  readonly all: Map<string, Replica>;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(replicas: Iterable<Replica>) {
    this.all = new Map([...replicas].map((one) => [one.name, one]));
  }

  /** `then` belongs to the same step. */
  take(frame: Frame, then: () => Promise<void>): void {
    this.#queue = this.#queue.then(() => this.#apply(frame, then)).catch((error: unknown) => console.error(error));
  }

  async #apply(frame: Frame, then: () => Promise<void>): Promise<void> {
    const parts = new Map<Replica, Part[]>();
    for (const [i, { table, kind }] of frame.header.parts.entries()) {
      const replica = this.all.get(table);
      if (replica) parts.set(replica, [...(parts.get(replica) ?? []), { kind, payload: frame.payloads[i]! }]);
    }
    // rows that take the place of others are put into the engine beside them: the picture stands still for the rest only
    const moves = await Promise.all([...parts].map(([one, some]) => one.make(some)));
    const step = async () => {
      await Promise.all([...parts].map(([one, some]) => one.apply(some)));
      await then();
    };
    await (moves.includes(true) ? atOnce(step) : step());
  }

  /** How many rows each table has. */
  async sizes(): Promise<Record<string, number>> {
    const names = [...this.all.keys()];
    const sizes = await Promise.all(names.map((name) => this.all.get(name)!.size()));
    return Object.fromEntries(names.map((name, i) => [name, sizes[i]!]));
  }

  /** A table's rows; `config` is the engine's, of a view. */
  async rows<T = Row>(table: string, config?: object): Promise<T[]> {
    return this.all.get(table)?.rows<T>(config) ?? [];
  }
}
