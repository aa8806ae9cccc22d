/**
 * What has happened, from the tables that tell of it: control messages, generations, the log. Pure.
 * A message and the generation that it asked for are one event.
 */

import type { Chosen, Generation } from "../../protocol/api_types.js";

/** A row of `control_raw`. */
export type Message = Partial<Chosen> & {
  offset: number;
  ts: number;
  by: string | null;
  outcome: string;
  reason: string | null;
  raw: string | null;
};
/** A row of `orchestrator_logs`. */
export type Line = { _id: string; ts: number; level: string; msg: string };
/** A time that a generation spent in one state; without an end it still does. */
export type Stage = { name: "build" | "live" | "standby"; from: number; to: number | null };
export type Event = {
  id: string;
  at: number;
  by: string;
  outcome: string;
  reason: string;
  message: Message | null;
  generation: Generation | null;
  back: Generation | null; // what it went back to
  before: Chosen | null; // what was live then
  stages: Stage[];
};

const BUILT_FOR = /^control (\d+): building generation (\d+)\b/;
const BACK = /^control (\d+): generation (\d+) is live again$/;
const MOVED = /^(?:live|rolled back): .*\bgeneration (\d+), [^→]*$/;

/** When the names moved to which generation, the oldest first. */
export function moves(lines: Line[]): [number, number][] {
  const found: [number, number][] = [];
  for (const { ts, msg } of [...lines].sort(inOrder)) {
    const moved = MOVED.exec(msg);
    if (moved) found.push([ts, Number(moved[1])]);
  }
  return found;
}

/** How a generation spent its time. */
export function stages(generation: Generation, moved: [number, number][]): Stage[] {
  const { generation: number, requestedAt, catchUpSeconds, retiredAt } = generation;
  const readyAt = catchUpSeconds === null ? null : requestedAt + 1000 * catchUpSeconds;
  const ended = retiredAt ?? null;
  const built: Stage = { name: "build", from: requestedAt, to: readyAt ?? ended };
  if (readyAt === null) return [built];
  const found = [built];
  // what the log has let go by now is taken for a move at the time of being ready
  const known = moved.some(([, to]) => to === number)
    ? moved
    : [...moved, [readyAt, number] as [number, number]].sort((a, b) => a[0] - b[0]);
  let now = null as Stage | null;
  for (const [at, to] of known) {
    const name: Stage["name"] | null = to === number ? "live" : now ? "standby" : null;
    if (name === null || now?.name === name) continue;
    if (now) now.to = at;
    now = { name, from: at, to: null };
    found.push(now);
  }
  if (now) now.to = ended;
  return found;
}

const inOrder = (a: Line, b: Line) => a.ts - b.ts || (a._id < b._id ? -1 : 1);

/** Whether a line speaks of a message, or of a generation. */
export function speaksOf(line: Line, message: Message | null, generation: Generation | null): boolean {
  if (message && new RegExp(`^control ${message.offset}\\b`).test(line.msg)) return true;
  return generation !== null && new RegExp(`\\bgeneration ${generation.generation}\\b`).test(line.msg);
}

/** All events, the newest first. */
export function events(messages: Message[], generations: Generation[], lines: Line[]): Event[] {
  const builtFor = new Map<number, number>(); // by message
  const backTo = new Map<number, number>();
  for (const { msg } of lines) {
    const built = BUILT_FOR.exec(msg);
    const back = BACK.exec(msg);
    if (built) builtFor.set(Number(built[1]), Number(built[2]));
    if (back) backTo.set(Number(back[1]), Number(back[2]));
  }
  const moved = moves(lines);
  const byNumber = new Map(generations.map((one) => [one.generation, one]));
  const before = (at: number, own: number | undefined): Chosen | null => {
    const last = moved.filter(([when, to]) => when <= at && to !== own).at(-1);
    return last ? (byNumber.get(last[1]) ?? null) : null;
  };
  const found: Event[] = [];
  const asked = new Set<number>();
  for (const message of messages) {
    const number = builtFor.get(message.offset);
    const generation = number === undefined ? null : (byNumber.get(number) ?? null);
    const back = byNumber.get(backTo.get(message.offset) ?? 0) ?? null;
    if (generation) asked.add(generation.generation);
    found.push({
      id: `m${message.offset}`,
      at: message.ts,
      by: message.by ?? "kafka",
      outcome: message.outcome,
      reason: message.reason ?? "",
      message,
      generation,
      back,
      before: before(message.ts, number ?? back?.generation),
      stages: generation ? stages(generation, moved) : [],
    });
  }
  for (const generation of generations) {
    if (asked.has(generation.generation)) continue;
    found.push({
      id: `g${generation.generation}`,
      at: generation.requestedAt,
      by: generation.by ?? "",
      outcome: generation.state,
      reason: generation.message ?? "",
      message: null,
      generation,
      back: null,
      before: before(generation.requestedAt, generation.generation),
      stages: stages(generation, moved),
    });
  }
  found.sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
  return found;
}

/** The lines of the log that belong to an event, the oldest first. */
export function linesOf({ message, generation }: Event, lines: Line[]): Line[] {
  return lines.filter((line) => speaksOf(line, message, generation)).sort(inOrder);
}
