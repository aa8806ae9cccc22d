/** The menu for the order of one table's rows, and the mode that follows the newest one. */

import { button, setText } from "../ui/dom.js";
import { attachMenu } from "../ui/menu.js";
import type { MenuItem } from "../ui/menu.js";
import type { GridTable } from "./grid_table.js";
import type { Config, GridElement } from "./perspective.js";
import { arrivalDirection, arrivalSort, correctedSort, nextSort, Tail } from "./row_order.js";
import type { Direction } from "./row_order.js";

export class OrderMenu {
  readonly button: HTMLButtonElement;
  #table: GridTable;
  #config: Config = {}; // the viewer's
  #following: boolean; // the newest row, which is the last one then
  #newest: Direction = "desc"; // where it is when no column sorts
  #onFollow: (following: boolean) => void;
  #tail: Tail | null = null;

  constructor(table: GridTable, following: boolean, onFollow: (following: boolean) => void) {
    this.#table = table;
    this.#following = following;
    this.#onFollow = onFollow;
    this.button = button("", { class: "flat order", title: `Order of the rows of ${table.name}` }, () => {});
    this.button.hidden = !arrivalSort(table.name, "desc").length;
    attachMenu(this.button, () => this.#items());
    table.onConfig((config) => this.#show(config));
    table.onGrid((grid) => this.#extend(grid));
  }

  #extend(grid: GridElement): void {
    this.#tail = new Tail(grid.regular_table);
    this.#follow();
  }

  set following(following: boolean) {
    this.#following = following;
    this.#follow();
    setText(this.button, this.#text());
  }

  /** Sort by a column, as a click on its heading asks for. */
  sort(column: string, add: boolean): void {
    const sort = nextSort(this.#table.name, this.#config, column, add, this.#newest);
    void this.#table.viewer.restore({ sort });
  }

  #show(config: Config): void {
    this.#config = config;
    this.#newest = arrivalDirection(this.#table.name, config) ?? this.#newest;
    this.#follow();
    setText(this.button, this.#text());
    const sort = correctedSort(this.#table.name, config, this.#newest);
    if (sort) void this.#table.viewer.restore({ sort });
  }

  #follow(): void {
    if (!this.#tail) return;
    this.#tail.following = this.#following && arrivalDirection(this.#table.name, this.#config) === "asc";
  }

  #text(): string {
    const direction = arrivalDirection(this.#table.name, this.#config);
    if (direction) return direction === "desc" ? "Newest first" : this.#following ? "Following" : "Newest last";
    const { sort = [] } = this.#config;
    return sort.length ? `By ${sort.map(([column]) => column).join(", ")}` : "By group";
  }

  #items(): MenuItem[] {
    const now = this.#text();
    const item = (label: string, hint: string, direction: Direction, following: boolean) => ({
      label: label === now ? `${label} ✓` : label,
      hint,
      action: () => {
        this.following = following;
        this.#onFollow(following);
        void this.#table.viewer.restore({ sort: arrivalSort(this.#table.name, direction) });
      },
    });
    return [
      { heading: "In the order of arrival" },
      item("Newest first", "", "desc", false),
      item("Newest last", "", "asc", false),
      item("Following", "newest last, kept in view", "asc", true),
    ];
  }
}
