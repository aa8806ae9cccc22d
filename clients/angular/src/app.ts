/** Two live tables, one rendered by Angular and one by `<live-table>`, and a swap. */

import { CUSTOM_ELEMENTS_SCHEMA, Component, inject } from "@angular/core";
import { LiveTables } from "./live-tables";
import { Rows } from "./rows";
import { Swap } from "./swap";

@Component({
  selector: "app-root",
  imports: [Rows, Swap],
  schemas: [CUSTOM_ELEMENTS_SCHEMA], // <live-table>
  template: `
    <h1>livejoin in Angular</h1>
    @if (tables.error(); as error) {
      <p role="alert">{{ error }}</p>
    }
    @if (tables.user() === null) {
      <p role="alert">You are not signed in: <a href="livejoin/">sign in</a>, then reload this page.</p>
    }
    <app-swap />
    <h2>final_ui</h2>
    <app-rows name="final_ui" />
    <h2>users_ui</h2>
    <live-table table="users_ui" />
  `,
})
export class App {
  protected readonly tables = inject(LiveTables);
}
