/** What livejoin answers, in words. Plain text throughout: whoever shows it must not take it for HTML. */

export type Chosen = { usersTopic: string; accountsTopic: string; joinType: string };
/** A row of `generations`. */
export type Generation = Chosen & {
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
/** A row of `orchestrator_status`. */
export type Status = Partial<Chosen> & {
  state: string;
  generation: number | null;
  progress: number;
  message: string | null;
};
export type Answer = { offset: number; outcome: string; reason: string | null; generation?: number | null };
export type Topic = { exists: boolean; reason?: string; partitions?: number; records?: number };
export type Preview = {
  outcome: string;
  reason: string | null;
  build: string | null;
  topics: Record<string, Topic>;
  slots: { needed: number | null; held: number; total: number };
  stopped: number[];
  resolvesTo: { usersTopic: string; accountsTopic: string } | null;
  afterwards: { live: string | null; standby: string | null };
};

export const counted = (count: number, one: string) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

export const choice = ({ usersTopic, accountsTopic, joinType }: Chosen) => `${usersTopic} ${joinType} ${accountsTopic}`;

export const newestOf = (table: string, shown: number, total: number) =>
  `${table}: the newest ${shown.toLocaleString("en")} of ${counted(total, "row")}`;

export const cappedAt = (table: string, rows: number, from: string) =>
  `${table} is full: ${counted(rows, "row")}, from ${from} on`;

export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** How many per second, in few characters. */
export function perSecond(rate: number | null): string {
  if (rate === null) return "–";
  if (rate >= 10_000) return `${(rate / 1000).toFixed(0)} k/s`;
  return `${rate >= 100 || rate === 0 ? rate.toFixed(0) : rate.toFixed(1)}/s`;
}

const UNDER_WAY = ["accepted", "building", "caught-up", "written"];
const BAD = ["rejected", "failed", "superseded", "cancelled"];

export function kindOf(outcome: string): "good" | "busy" | "bad" {
  return UNDER_WAY.includes(outcome) ? "busy" : BAD.includes(outcome) ? "bad" : "good";
}

/** What became of a message. */
export function answered({ offset, outcome, reason, generation }: Answer): string {
  const what = generation ? `generation ${generation}` : `control message ${offset}`;
  const said: Record<string, string> = {
    accepted: `Accepted: ${what} is being built`,
    building: `${what} is being built`,
    "caught-up": `${what} has caught up`,
    live: `${what} is live`,
    written: `Written as control message ${offset}`,
  };
  return `${sentence([said[outcome] ?? `${what}: ${outcome}`, reason].filter(Boolean).join("; "))}.`;
}

function read(name: string, topic?: Topic): string {
  if (!topic?.exists) return `${name}: ${topic?.reason ?? "nothing is known of it"}`;
  return `${name}: ${counted(topic.records ?? 0, "record")} in ${counted(topic.partitions ?? 0, "partition")}`;
}

/** What, and how it would be. */
export function previewed({
  outcome,
  reason,
  build,
  topics,
  slots,
  afterwards,
  stopped,
  resolvesTo,
}: Preview): [string, string][] {
  if (outcome === "rejected") return [["Rejected", reason ?? ""]];
  const names = resolvesTo ? [resolvesTo.usersTopic, resolvesTo.accountsTopic] : [];
  const cost: [string, string][] = [
    ...names.map((name): [string, string] => ["Reads", read(name, topics[name])]),
    ["Needs", `${counted(slots.needed ?? 0, "task slot")}; ${slots.held} of ${slots.total} are held`],
  ];
  return [
    ["Builds", build ?? `nothing${reason ? `: ${reason}` : ""}`],
    ...(build ? cost : []),
    ["Then live", afterwards.live ?? "nothing"],
    ["Standby", afterwards.standby ?? "nothing"],
    ["Stops", stopped.length ? stopped.map((number) => `generation ${number}`).join(", ") : "nothing"],
  ];
}
