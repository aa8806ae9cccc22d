/** JSON bodies of the HTTP API, and rows of livejoin's own tables. */

/** A source's field in control messages, and its column in livejoin's own tables: its name and `Topic`. */
export type TopicField = `${string}Topic`;
/** Topics and join of a generation; a topic is null if the generation had other sources. */
export type Choice = { joinType: string } & { [field: TopicField]: string | null };

/** What the served generation joins, and what control messages may name. The driver is the first source. */
export type JoinSpec = {
  sources: { name: string; table: string }[];
  driver: string;
  lookups: string[];
  tables: { name: string; columns: { name: string; type: string }[] }[];
  control: { sources: { name: string; field: TopicField }[]; joins: string[] };
};

/** A row of `generations`. */
export type Generation = Choice & {
  generation: number;
  state: string;
  by: string | null;
  requestedAt: number;
  liveAt: number | null;
  retiredAt: number | null;
  catchUpSeconds: number | null;
  read: number | null;
  rejected: number | null;
  tombstones: number | null;
  rows: number | null;
  message: string | null;
};

/** The row of `orchestrator_status`. */
export type StatusRow = Partial<Choice> & {
  state: string;
  generation: number | null;
  progress: number;
  message: string | null;
};

/** A row of `control_raw`; `_id` sorts by the order in which messages were read. */
export type ControlRow = Partial<Choice> & {
  _id: string;
  partition: number;
  offset: number;
  ts: number;
  by: string | null;
  outcome: string;
  reason: string | null;
  raw: string | null;
};

/** A row of `orchestrator_logs`. */
export type LogRow = {
  _id: string;
  ts: number;
  level: string;
  msg: string;
  event: string | null;
  generation: number | null;
  control: string | null; // partition and offset of a control message: `0-12`
};

/** A row of `rejects_ui`. */
export type RejectRow = {
  _id: string;
  source: string;
  topic: string;
  partition: number;
  offset: number;
  ts: number;
  reason: string;
  raw: string | null;
};

/** Response to a control message or a rollback. */
export type ControlReply = ControlPosition & {
  outcome: string;
  reason: string | null;
  generation?: number | null;
  warnings?: string[]; // what of the message was ignored; servers of earlier versions do not say it
};

/** Where a message is in the control topic. */
export type ControlPosition = { partition: number; offset: number };

export type PreviewTopic = { exists: boolean; reason?: string; partitions?: number; records?: number };
export type Preview = {
  outcome: string;
  reason: string | null;
  warnings?: string[];
  build: string | null;
  topics: Record<string, PreviewTopic>;
  slots: { needed: number | null; held: number; total: number };
  stopped: number[];
  resolvesTo: Choice | null;
  afterwards: { live: string | null; standby: string | null };
};

/** An entry of `api/v1/topics`. */
export type TopicInfo = {
  name: string;
  kind: string;
  partitions: number;
  records: number | null;
  newest: string | null;
  trouble: string | null;
};

/** Records of a topic, in the direction of reading. */
export type TopicPeek = {
  topic: string;
  complete: boolean; // false: a limit was reached first
  scanned: number; // records read, found or not
  reached: string | null; // the time up to which all were read; null: all there are
  older: string | null; // where to go on
  newer: string;
  partitions: RetainedOffsets[];
  messages: TopicRecord[];
};
export type RetainedOffsets = { partition: number; start: number; end: number };

/** A record, raw and as a source would parse it. */
export type TopicRecord = {
  partition: number;
  offset: number;
  timestamp: string | null;
  key: string | null;
  value: string | null;
  valueBytes: number | null;
  cut: boolean; // key or value, at 4 KiB
  headers: RecordHeader[];
  headersLeftOut: number;
  parsed: Record<string, unknown> | null;
  reason: string | null; // why a source rejects it
};
export type RecordHeader = { name: string; text: string | null; base64: string | null; bytes: number | null };

/** A partition, as far as it was read; null is unknown, and the newest offset of an empty one. */
export type PartitionFigures = {
  partition: number;
  newestOffset: number | null;
  nextOffset: number;
  lag: number | null;
  behind: number | null; // seconds
};
/** `worst` are those of `count` partitions with the most unread records. */
export type SourcePartitions = { topic: string; count: number; worst: PartitionFigures[] };
/** Rows of the driver with a record of a lookup, and without. */
export type Matches = { matched: number; unmatched: number };
export type Figures = {
  partitions: Record<string, SourcePartitions>;
  sources: Record<string, unknown>; // the driver first
  lookups: Record<string, Matches>; // by source
  lagTrouble: string | null;
  sparkUi: string | null;
  standbySeconds: number | null;
};

/** One check of `/readyz`. */
export type ReadinessCheck = { name: string; ok: boolean; why: string };

export type User = { id: string; role: "viewer" | "operator"; label: string };
