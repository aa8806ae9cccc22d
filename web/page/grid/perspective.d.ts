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
  split_rollup_mode?: string;
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

/** What the grid knows of a drawn cell. `x` and `y` count columns and rows of the view, `y0` is the first drawn row. */
export type CellMeta = {
  type: "body" | "column_header" | "row_header" | "corner";
  x?: number;
  y?: number;
  y0?: number;
  size_key?: number; // of the column; its cells have the class `rt-col-<size_key>`
  column_header?: string[];
  user?: unknown; // the value of a body cell
};
/** Cells and their headings, by column and by row, and the values that they show. */
export type DataResponse = {
  num_rows?: number;
  num_columns?: number;
  num_row_headers?: number;
  data?: unknown[][];
  metadata?: unknown[][];
  row_headers?: unknown[][];
  column_headers?: unknown[][];
};
/** Reads a window of cells; an empty one to learn the size. */
export type DataListener = (x0: number, y0: number, x1: number, y1: number) => Promise<DataResponse>;

/** Columns from `start_col` to before `end_col`, which is infinite if all are drawn. */
type DrawnColumns = { start_col: number; end_col: number };

export interface RegularTable extends HTMLElement {
  table_model?: { updateColumnWidthStyles(drawn: DrawnColumns, rowHeaders: number): void };
  /** The listener is called after each draw. */
  addStyleListener(listener: () => void): () => void;
  getMeta(cell: Element): CellMeta | undefined;
  setDataListener(listener: DataListener, options?: { virtual_mode?: "vertical" | "both" }): void;
  /** Forget measured widths. Those that the user has dragged stay. */
  resetAutoSize(which: { auto: boolean; indices: boolean }): void;
  draw(): Promise<void>;
}

/** What the engine knows of a grid's view. */
export type GridModel = {
  _view: unknown;
  _config: Config;
  _column_paths: string[];
  _column_path_area: unknown[][]; // the values that split the columns, by depth and column
  _column_types: string[];
  _row_header_types: (string | undefined)[]; // by depth of the groups
  _table_schema: Record<string, string>;
  _ids: unknown[][]; // of the drawn rows; of grouped ones the values of the groups
};

/** The element of a grid. There is no model before the first draw. */
export interface GridElement extends HTMLElement {
  regular_table: RegularTable;
  model?: GridModel;
}

/** A grid, which has a `regular_table`, or a chart. */
export interface Plugin {
  regular_table?: RegularTable;
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
  delete(): Promise<void>;
  toggleConfig(open?: boolean): Promise<void>;
  resize(force?: boolean): Promise<void>;
}
