/** The part of Perspective's API that this page uses. It is undocumented; all assumptions about it are here. */

export type Sort = [string, string];
export type Filter = [string, string, unknown];
/** Configuration of a viewer, as it is saved and restored. */
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
/** A range of cells of a view, without its end. */
export type CellRange = { start_row: number; end_row: number; start_col: number; end_col: number };
export type Columns = Record<string, unknown[]>;

export interface View {
  to_json(range?: CellRange): Promise<Record<string, unknown>[]>;
  to_columns(range?: CellRange): Promise<Columns>;
  to_arrow(range?: CellRange): Promise<ArrayBuffer>;
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

/** A grid, which has a `regular_table`, or a chart. */
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
  getSelection(): CellRange | null;
  setSelection(range: CellRange): void;
  toggleConfig(open?: boolean): Promise<void>;
  resize(force?: boolean): Promise<void>;
}
