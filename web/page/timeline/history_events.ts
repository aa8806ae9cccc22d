/**
 * History events derived from the tables `control_raw`, `generations` and `orchestrator_logs`. Pure.
 * A control message and the generation built for it are one event.
 */

import type { Choice, ControlPosition, ControlRow, Generation, LogRow } from "../../protocol/api_types.js";
import { generationStatus, messageStatus } from "./event_status.js";
import type { EventStatus } from "./event_status.js";

/** A period that a generation spent in one state; `to` is null while it lasts. */
export type Stage = { name: "build" | "live" | "standby"; from: number; to: number | null };
export type HistoryEvent = {
  id: string;
  at: number;
  by: string;
  status: EventStatus;
  reason: string;
  warnings: string[]; // what of the message was ignored
  message: ControlRow | null;
  generation: Generation | null;
  rolledBackTo: Generation | null;
  previous: Choice | null; // live before the event
  stages: Stage[];
};
/** A generation went live: time, generation, and whether it was a rollback. */
type Cutover = [number, number, boolean];

/** All cutovers, oldest first: those in the log, and that of the live generation if the log no longer has it. */
function cutovers(lines: LogRow[], generations: Generation[]): Cutover[] {
  const found: Cutover[] = [];
  for (const { ts, event, generation } of [...lines].sort(byTime)) {
    if (generation !== null && (event === "live" || event === "rolled-back"))
      found.push([ts, generation, event === "rolled-back"]);
  }
  const live = generations.find(({ state }) => state === "live");
  if (live?.liveAt && !found.some(([, to]) => to === live.generation)) found.push([live.liveAt, live.generation, false]);
  return found.sort(([a], [b]) => a - b);
}

/** What the column `control` of log lines holds. */
const controlKey = ({ partition, offset }: ControlPosition) => `${partition}-${offset}`;

function stagesOf(generation: Generation, allCutovers: Cutover[]): Stage[] {
  const { generation: number, requestedAt, catchUpSeconds, retiredAt } = generation;
  const readyAt = catchUpSeconds === null ? null : requestedAt + 1000 * catchUpSeconds;
  const build: Stage = { name: "build", from: requestedAt, to: readyAt ?? retiredAt };
  if (readyAt === null) return [build];
  const stages = [build];
  // if the log no longer has its cutover, assume that it went live when it was ready
  const known = allCutovers.some(([, to]) => to === number)
    ? allCutovers
    : [...allCutovers, [readyAt, number, false] as Cutover].sort((a, b) => a[0] - b[0]);
  let current = null as Stage | null;
  for (const [at, to] of known) {
    const name: Stage["name"] | null = to === number ? "live" : current ? "standby" : null;
    if (name === null || current?.name === name) continue;
    if (current) current.to = at;
    current = { name, from: at, to: null };
    stages.push(current);
  }
  if (current) current.to = retiredAt;
  return stages;
}

const byTime = (a: LogRow, b: LogRow) => a.ts - b.ts || (a._id < b._id ? -1 : 1);

/** All events, newest first. */
export function historyEvents(messages: ControlRow[], generations: Generation[], lines: LogRow[]): HistoryEvent[] {
  const builtFor = new Map<string, number>(); // generation by control position
  const rolledBack = new Map<string, number>(); // the same
  for (const { event, generation, control } of lines) {
    if (generation === null || control === null) continue;
    if (event === "accepted") builtFor.set(control, generation);
    if (event === "rolled-back") rolledBack.set(control, generation);
  }
  const allCutovers = cutovers(lines, generations);
  const wentBack = allCutovers.at(-1)?.[2] ?? false; // so what is on standby was rolled back
  const byNumber = new Map(generations.map((row) => [row.generation, row]));
  const liveBefore = (at: number, own: number | undefined): Choice | null => {
    const last = allCutovers.filter(([when, to]) => when <= at && to !== own).at(-1);
    return last ? (byNumber.get(last[1]) ?? null) : null;
  };
  const events: HistoryEvent[] = [];
  const requested = new Set<number>(); // generations with a control message
  for (const message of messages) {
    const key = controlKey(message);
    const number = builtFor.get(key);
    const generation = number === undefined ? null : (byNumber.get(number) ?? null);
    const rolledBackTo = byNumber.get(rolledBack.get(key) ?? 0) ?? null;
    if (generation) requested.add(generation.generation);
    events.push({
      id: `m${key}`,
      at: message.ts,
      by: message.by ?? "kafka",
      status: generation
        ? generationStatus(generation, message.outcome, wentBack)
        : messageStatus(message, rolledBackTo !== null),
      reason: message.reason ?? "",
      warnings: warningsAbout(key, lines),
      message,
      generation,
      rolledBackTo,
      previous: liveBefore(message.ts, number ?? rolledBackTo?.generation),
      stages: generation ? stagesOf(generation, allCutovers) : [],
    });
  }
  for (const generation of generations) {
    if (requested.has(generation.generation)) continue;
    events.push({
      id: `g${generation.generation}`,
      at: generation.requestedAt,
      by: generation.by ?? "",
      status: generationStatus(generation, "", wentBack),
      reason: generation.message ?? "",
      warnings: [],
      message: null,
      generation,
      rolledBackTo: null,
      previous: liveBefore(generation.requestedAt, generation.generation),
      stages: stagesOf(generation, allCutovers),
    });
  }
  // messages of one millisecond in the order in which they were read
  const order = ({ id, message }: HistoryEvent) => message?._id ?? id;
  return events.sort((a, b) => b.at - a.at || (order(a) < order(b) ? 1 : -1));
}

/** What the log says was ignored, without the position that its lines begin with. */
function warningsAbout(key: string, lines: LogRow[]): string[] {
  return lines
    .filter(({ event, control }) => event === "warning" && control === key)
    .sort(byTime)
    .map(({ msg }) => msg.replace(/^control \d+\/\d+: /, ""));
}

/** Log lines about an event's message or generation, oldest first. */
export function logLinesOf({ message, generation }: HistoryEvent, lines: LogRow[]): LogRow[] {
  const key = message && controlKey(message);
  const number = generation?.generation;
  return lines
    .filter((line) => (key && line.control === key) || (number && line.generation === number))
    .sort(byTime);
}
