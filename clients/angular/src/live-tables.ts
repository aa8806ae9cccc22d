/** The application's one connection to livejoin: tables as signals, and control messages. */

import { Injectable, signal } from "@angular/core";
import type { Signal } from "@angular/core";
import type { Client, Column, ControlMessage, Outcome, Row, Status, User } from "livejoin";

/**
 * The module comes from livejoin at run time, so that it always matches the server. A proxy serves livejoin in the
 * folder `livejoin/` beside index.html; from another site, name it here and pass a token to `connect`.
 */
const MODULE = new URL("livejoin/static/livejoin.js", document.baseURI).href;

export interface FollowedTable {
  readonly columns: Signal<Column[]>; // those that are shown
  readonly rows: Signal<Row[]>;
  readonly status: Signal<Status | null>; // null: not connected yet
}

@Injectable({ providedIn: "root" })
export class LiveTables {
  readonly #client = this.#open();
  readonly #followed = new Map<string, FollowedTable>();
  readonly #user = signal<User | null | undefined>(undefined);
  readonly #error = signal("");

  /** Who is signed in; null: nobody; undefined: not known yet. */
  readonly user = this.#user.asReadonly();
  /** Why there is no connection, or "". */
  readonly error = this.#error.asReadonly();

  constructor() {
    this.#client
      .then(async (client) => this.#user.set(await client.whoami()))
      .catch((error: Error) => this.#error.set(error.message));
  }

  /** A table that stays up to date, through every swap. Asked for again, it is the same. */
  follow(name: string): FollowedTable {
    const known = this.#followed.get(name);
    if (known) return known;
    const columns = signal<Column[]>([]);
    const rows = signal<Row[]>([]);
    const status = signal<Status | null>(null);
    this.#client.then(
      (client) => {
        const table = client.table(name);
        const changed = () => {
          columns.set(table.columns.filter((column) => !column.name.startsWith("_")));
          rows.set(table.rows());
        };
        table.subscribe(changed, (now) => status.set(now));
      },
      () => {}, // `error` says it
    );
    const followed = { columns, rows, status };
    this.#followed.set(name, followed);
    return followed;
  }

  /** Send a control message. Rejects with the reason if livejoin does. */
  async control(message: ControlMessage): Promise<Outcome> {
    return (await this.#client).control(message);
  }

  async #open(): Promise<Client> {
    const { connect }: typeof import("livejoin") = await import(MODULE);
    return connect(); // the address that the module came from
  }
}
