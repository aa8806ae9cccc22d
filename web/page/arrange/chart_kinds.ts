/** How a table can be shown, what each kind calls its axes, and what changes between grid and chart. Pure. */

import type { Config } from "../grid/perspective.js";

export type ChartKind = {
  plugin: string; // Perspective's name
  values: string[]; // what its columns are called, in the order of the configuration
  several: boolean; // whether it takes any number of columns, all in the first role
  groups: string;
  series: string;
  rows?: true; // a point for each row is of use: groups are not chosen beforehand
};

export const GRID = "Datagrid";
const columns = { values: ["Columns"], several: true, groups: "Group by", series: "Pivot: a column for each" };
const upright = { values: ["Y axis"], several: true, groups: "X axis: a group for each", series: "A series for each" };
const nested = {
  values: ["Size", "Colour", "Tooltip"],
  several: false,
  groups: "Hierarchy",
  series: "A chart for each",
};

export const KINDS: readonly ChartKind[] = [
  { plugin: GRID, ...columns },
  { plugin: "Y Bar", ...upright },
  { plugin: "X Bar", ...upright, values: ["X axis"], groups: "Y axis: a group for each" },
  { plugin: "Y Line", ...upright },
  { plugin: "Y Area", ...upright },
  { plugin: "Y Scatter", ...upright },
  {
    plugin: "X/Y Scatter",
    values: ["X axis", "Y axis", "Colour", "Size", "Label", "Tooltip"],
    several: false,
    groups: "A point for each",
    series: "A series for each",
    rows: true,
  },
  { plugin: "Treemap", ...nested },
  { plugin: "Sunburst", ...nested },
  { plugin: "Heatmap", values: ["Colour"], several: false, groups: "X axis", series: "Y axis" },
];

/** Kinds that only the expert panel offers are shown with the roles of a grid. */
export const kindOf = (plugin: string = GRID): ChartKind =>
  KINDS.find((kind) => kind.plugin === plugin) ?? { plugin, ...columns };

export const kindLabel = (plugin: string): string => (plugin === GRID ? "Grid" : plugin);

const isPlainGrid = ({ plugin = GRID, group_by = [] }: Config): boolean => plugin === GRID && !group_by.length;

/**
 * What to remember of a grid, so that a chart becomes the same grid again: not the filters, which the user may change
 * meanwhile. Charts change group_rollup_mode and leave out columns.
 */
export function rememberedGrid(config: Config): Config | null {
  if (config.plugin !== GRID) return null;
  const { columns = [], group_by = [], split_by = [], aggregates = {}, sort = [] } = config;
  return { columns, group_by, split_by, aggregates, sort, group_rollup_mode: config.group_rollup_mode ?? "rollup" };
}

/** A plain grid becomes a chart with the table's defaults: a chart of single rows is of little use. */
export function toChart(config: Config, plugin: string, chartDefaults: Config = {}): Config {
  const defaults = isPlainGrid(config) && !kindOf(plugin).rows ? chartDefaults : {};
  return { plugin, ...defaults, filter: [...(config.filter ?? []), ...(defaults.filter ?? [])] };
}

/**
 * A chart becomes a grid: as it was remembered, else without the chart's defaults. After a reload nothing is
 * remembered; groups that the user has chosen are then kept.
 */
export function toGrid(
  config: Config,
  remembered: Config | null,
  chartDefaults: Config = {},
  gridDefaults: Config = {},
): Config {
  const plugin = GRID;
  const added = (chartDefaults.filter ?? []).map((each) => JSON.stringify(each));
  const filter = (config.filter ?? []).filter((each) => !added.includes(JSON.stringify(each)));
  if (remembered) return { plugin, ...remembered, filter };
  const same = (name: "group_by" | "columns") => {
    const [now = [], initial = []] = [config[name], chartDefaults[name]].map((each) => each?.filter(Boolean));
    return JSON.stringify(now) === JSON.stringify(initial);
  };
  const { columns = [], group_by = [] } = config;
  if (!same("group_by") && group_by.length) {
    return { plugin, group_rollup_mode: "rollup", columns: columns.filter((name) => name !== null) };
  }
  return {
    plugin,
    group_rollup_mode: "rollup",
    group_by: [],
    split_by: [],
    aggregates: {},
    columns: gridDefaults.columns ?? [],
    sort: gridDefaults.sort ?? [],
    filter,
  };
}
