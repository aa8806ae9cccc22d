/**
 * Fits a configuration that was made for other columns, or written by anybody, to a table: what it names and the table
 * has not is left out, and so is what is not well formed. Pure.
 */

import { isRecord, isTexts } from "../ui/layout_format.js";
import { isQuick, quickText, withQuickText } from "./filters.js";
import type { Types } from "./filters.js";
import type { Config, Filter, Sort } from "./perspective.js";

/** The configuration that fits, and the columns that the table has not. */
export type Fitted = { config: Config; missing: string[] };

const COLUMN = /"((?:[^"\\]|\\.)*)"/g; // in an expression
const TEXT = /'(?:[^'\\]|\\.)*'/g;

export function fitConfig(given: Readonly<Config>, types: Types): Fitted {
  const missing = new Set<string>();
  const found = wellFormed(given);
  const expressions = fitExpressions(found.expressions ?? {}, types, missing);
  const known = (name: string) => name in types || name in expressions;
  const exists = (name: string) => {
    const computed = name in (found.expressions ?? {}); // of a lost one its columns are named
    if (!known(name) && !computed) missing.add(name);
    return known(name);
  };
  const { columns, group_by, split_by, sort, filter, aggregates, columns_config } = found;
  const config: Config = { ...found };
  if (found.expressions) config.expressions = expressions;
  if (columns) config.columns = columns.filter((name) => name === null || exists(name));
  if (config.columns && !config.columns.some((name) => name !== null)) delete config.columns; // as by default
  if (group_by) config.group_by = group_by.filter(exists);
  if (split_by) config.split_by = split_by.filter(exists);
  if (sort) config.sort = sort.filter(([name]) => exists(name));
  if (filter) config.filter = filter.filter((each) => isQuick(each) || exists(each[0]));
  if (aggregates) config.aggregates = ofColumns(aggregates, known);
  if (columns_config) config.columns_config = ofColumns(columns_config, known);
  const lostQuick = config.filter?.some((each) => isQuick(each) && !(each[0] in expressions));
  if (lostQuick) Object.assign(config, withQuickText(config, quickText(config), types)); // it names all columns
  return { config, missing: [...missing] };
}

/**
 * The configuration of a table whose columns have changed. New columns are shown as well; a filter goes with a column
 * whose type has changed, and so does its aggregate.
 */
export function fitChanged(given: Config, before: Types, types: Types, defaultColumns: Config["columns"] = []): Fitted {
  const retyped = (name: string) => name in before && name in types && before[name] !== types[name];
  const lost = (given.filter ?? []).filter(([name]) => retyped(name)).map(([name]) => name);
  const config: Config = { ...given };
  config.filter = (given.filter ?? []).filter(([name]) => !retyped(name));
  config.aggregates = ofColumns(given.aggregates ?? {}, (name) => !retyped(name));
  config.columns_config = ofColumns(given.columns_config ?? {}, (name) => !retyped(name));
  const isDefault = JSON.stringify(given.columns) === JSON.stringify(defaultColumns);
  if (isDefault) delete config.columns;
  const fitted = fitConfig(config, types);
  if (!isDefault && fitted.config.columns) {
    const added = Object.keys(types).filter((name) => !(name in before) && !name.startsWith("_"));
    fitted.config.columns = [...fitted.config.columns, ...added];
  }
  const text = quickText(fitted.config);
  if (text) Object.assign(fitted.config, withQuickText(fitted.config, text, types)); // it names all columns
  return { config: fitted.config, missing: [...new Set([...fitted.missing, ...lost])] };
}

/** Expressions of columns that the table has. A quick filter is made anew if need be, so nothing of it is missing. */
function fitExpressions(given: Record<string, string>, types: Types, missing: Set<string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).filter(([name, text]) => {
      const lost = [...text.replace(TEXT, "").matchAll(COLUMN)].map((match) => match[1]!).filter((each) => !(each in types));
      if (!isQuick([name, "", null])) for (const each of lost) missing.add(each);
      return !lost.length;
    }),
  );
}

function ofColumns<T>(record: Record<string, T>, exists: (name: string) => boolean): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => exists(name)));
}

type Read = (value: unknown) => unknown;

const isText = (value: unknown): value is string => typeof value === "string";
const isSort = (value: unknown): value is Sort => isTexts(value) && value.length === 2;
const isFilter = (value: unknown): value is Filter =>
  Array.isArray(value) && value.length === 3 && isTexts(value.slice(0, 2));
const only =
  (test: (value: unknown) => boolean): Read =>
  (value) =>
    test(value) ? value : undefined;
const listOf =
  (test: (value: unknown) => boolean): Read =>
  (value) =>
    Array.isArray(value) ? value.filter(test) : undefined;
const recordOf =
  (test: (value: unknown) => boolean): Read =>
  (value) =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).filter(([, each]) => test(each))) : undefined;

const SETTINGS: { [name in keyof Config]?: Read } = {
  plugin: only(isText),
  settings: only((value) => typeof value === "boolean"),
  columns: listOf((value) => value === null || isText(value)),
  group_by: listOf(isText),
  split_by: listOf(isText),
  group_rollup_mode: only(isText),
  split_rollup_mode: only(isText),
  aggregates: only(isRecord),
  sort: listOf(isSort),
  filter: listOf(isFilter),
  expressions: recordOf(isText),
  plugin_config: only(isRecord),
  columns_config: recordOf(isRecord),
};

/** The known settings. What is bound to the page (table, theme, title) is never somebody else's. */
function wellFormed(given: Readonly<Config>): Config {
  const read = Object.entries(given).map(([name, value]) => [name, SETTINGS[name as keyof Config]?.(value)] as const);
  return Object.fromEntries(read.filter(([, value]) => value !== undefined));
}
