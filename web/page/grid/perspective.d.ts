/** As much of the page's engine as is used here. It is undocumented, so that what is relied on stands in one place. */

export type Sort = [string, string];
export type Filter = [string, string, unknown];
/** What a viewer shows and how, as it is saved and restored. */
export type Config = {
  table?: string;
  theme?: string;
  title?: string | null;
  plugin?: string;
  settings?: boolean;
  columns?: (string | null)[];
  group_by?: string[];
  split_by?: string[];
  group_rollup_mode?: string;
  aggregates?: Record<string, unknown>;
  sort?: Sort[];
  filter?: Filter[];
  expressions?: Record<string, string>;
  plugin_config?: Record<string, unknown>;
  columns_config?: Record<string, Record<string, unknown>>;
};
/** Cells of a view, the ends not included. */
export type Window = { start_row: number; end_row: number; start_col: number; end_col: number };
export type Cells = Record<string, unknown[]>;

export interface View {
  to_json(window?: Window): Promise<Record<string, unknown>[]>;
  to_columns(window?: Window): Promise<Cells>;
  to_arrow(window?: Window): Promise<ArrayBuffer>;
  num_rows(): Promise<number>;
  schema(): Promise<Record<string, string>>;
  delete(): Promise<void>;
}

export interface EngineTable {
  columns(): Promise<string[]>;
  schema(): Promise<Record<string, string>>;
  size(): Promise<number>;
  update(data: ArrayBuffer): Promise<void>;
  remove(ids: unknown[]): Promise<void>;
  view(config?: object): Promise<View>;
  delete(): Promise<void>;
}

export interface Engine {
  table(data: ArrayBuffer, options?: { index?: string; name?: string }): Promise<EngineTable>;
}

/** What draws: a grid, which has a `regular_table`, or a chart. */
export interface Plugin {
  regular_table?: HTMLElement;
  update(view: View): Promise<void>;
}

export interface Viewer extends HTMLElement {
  load(engine: Engine): Promise<void>;
  restore(config: Config): Promise<void>;
  save(): Promise<Config>;
  getView(): Promise<View>;
  getPlugin(): Promise<Plugin>;
  getSelection(): Window | null;
  setSelection(window: Window): void;
  toggleConfig(open?: boolean): Promise<void>;
  resize(force?: boolean): Promise<void>;
}
