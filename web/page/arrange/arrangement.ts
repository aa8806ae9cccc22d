/** Edits of a viewer's configuration. Each returns only what changes. Pure. */

import type { Types } from "../grid/filters.js";
import type { Config, Sort } from "../grid/perspective.js";
import { arrivalDirection } from "../grid/row_order.js";

/** Columns of livejoin's own, such as a row's id. */
export const isInternal = (name: string): boolean => name.startsWith("_");

export function moved<T>(list: readonly T[], from: number, to: number): T[] {
  const item = list[from];
  if (item === undefined || to < 0 || to >= list.length) return [...list];
  return list.toSpliced(from, 1).toSpliced(to, 0, item);
}

export const without = <T>(list: readonly T[], at: number): T[] => list.toSpliced(at, 1);

export const shownColumns = ({ columns = [] }: Config): string[] => columns.filter((name) => name !== null);

/** Columns in the order of the list: shown ones as shown, then the others, livejoin's own last. */
export function listedColumns(config: Config, types: Types): string[] {
  const shown = shownColumns(config);
  const others = Object.keys(types).filter((name) => !shown.includes(name));
  return [...shown, ...others.filter((name) => !isInternal(name)), ...others.filter(isInternal)];
}

export const withColumn = (config: Config, name: string): Config => ({ columns: [...shownColumns(config), name] });

/** At least one column stays: a table without columns shows nothing. */
export function withoutColumn(config: Config, name: string): Config {
  const shown = shownColumns(config);
  return shown.length > 1 ? { columns: shown.filter((each) => each !== name) } : {};
}

/** A chart with roles: one column, or none, for each of them. */
export function withRole(config: Config, role: number, name: string | null, roles: number): Config {
  const columns = Array.from({ length: roles }, (_, at) => config.columns?.[at] ?? null);
  return { columns: columns.with(role, name) };
}

export const withAggregate = (config: Config, column: string, aggregate: string): Config => ({
  aggregates: { ...config.aggregates, [column]: aggregate },
});

/** The first column of the table that is in none of these. */
export function unusedColumn(types: Types, used: readonly string[]): string | undefined {
  const names = Object.keys(types).filter((name) => !used.includes(name));
  return names.find((name) => !isInternal(name)) ?? names[0];
}

const NUMBER_ORDERS: [string, string][] = [
  ["asc", "lowest first"],
  ["desc", "highest first"],
];
const TIME_ORDERS: [string, string][] = [
  ["desc", "newest first"],
  ["asc", "oldest first"],
];
const TEXT_ORDERS: [string, string][] = [
  ["asc", "A to Z"],
  ["desc", "Z to A"],
];

/** Directions of a sort in words of the column's type. Nulls are lower than everything else. */
export function directionsOf(type: string): [string, string][] {
  if (type === "integer" || type === "float") return NUMBER_ORDERS;
  return type === "datetime" || type === "date" ? TIME_ORDERS : TEXT_ORDERS;
}

/** The columns that the user sorts by: none if the rows stand in the order of arrival. */
export const chosenSort = (table: string, config: Config): Sort[] =>
  arrivalDirection(table, config) ? [] : (config.sort ?? []);

export function withSort(table: string, config: Config, types: Types): Config {
  const sort = chosenSort(table, config);
  const column = unusedColumn(
    types,
    sort.map(([name]) => name),
  );
  if (column === undefined) return {};
  const added: Sort = [column, directionsOf(types[column] ?? "")[0]![0]];
  return { sort: [...sort, added] };
}
