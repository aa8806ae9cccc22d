/** A table of your own: the newest rows, rendered by Angular. */

import { Component, computed, inject, input } from "@angular/core";
import { LiveTables } from "./live-tables";

const SHOWN = 50; // all rows are here; a grid with virtual scrolling would take them

@Component({
  selector: "app-rows",
  template: `
    @if (notice(); as text) {
      <p role="status">{{ text }}</p>
    }
    <div role="region" tabindex="0" [attr.aria-label]="name()">
      <table>
        <caption>
          the newest {{ newest().length }} of {{ table().status()?.total ?? 0 }} rows
        </caption>
        <thead>
          <tr>
            @for (column of table().columns(); track column.name) {
              <th scope="col" [class.number]="column.type !== 'string'">{{ column.name }}</th>
            }
          </tr>
        </thead>
        <tbody>
          @for (row of newest(); track row._id) {
            <tr>
              @for (column of table().columns(); track column.name) {
                <td [class.number]="column.type !== 'string'">{{ row[column.name] }}</td>
              }
            </tr>
          }
        </tbody>
      </table>
    </div>
  `,
  styles: `
    div { max-height: 17rem; overflow: auto; border: 1px solid light-dark(#ccc, #555); }
    table { width: 100%; border-collapse: collapse; font-size: 14px; }
    caption { padding: 0.2rem 0.5rem; text-align: start; opacity: 0.75; }
    th { position: sticky; top: 0; background: Canvas; text-align: start; }
    th, td { padding: 0.1rem 0.5rem; white-space: nowrap; }
    th.number, td.number { text-align: end; font-variant-numeric: tabular-nums; }
  `,
})
export class Rows {
  readonly name = input.required<string>();
  readonly #tables = inject(LiveTables);
  protected readonly table = computed(() => this.#tables.follow(this.name()));
  protected readonly newest = computed(() =>
    [...this.table().rows()].sort((a, b) => Number(b["_ts"]) - Number(a["_ts"])).slice(0, SHOWN),
  );
  protected readonly notice = computed(() => {
    const { state, stale } = this.table().status() ?? { state: "connecting", stale: null };
    return stale ?? (state === "following" ? "" : state);
  });
}
