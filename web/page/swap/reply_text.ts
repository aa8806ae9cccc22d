/** Replies and previews of control messages as plain text. Insert it as text, never as HTML. */

import type { ControlReply, Preview, PreviewTopic } from "../../protocol/api_types.js";
import { capitalize, plural, positionText, topicsOf } from "../ui/format.js";

/** Outcome of a control message as a sentence. */
export function describeReply(reply: ControlReply): string {
  const { outcome, reason, generation } = reply;
  const message = `control message ${positionText(reply)}`;
  const subject = generation ? `generation ${generation}` : message;
  const texts: Record<string, string> = {
    accepted: `Accepted: ${subject} is being built`,
    building: `${subject} is being built`,
    "caught-up": `${subject} has caught up`,
    live: `${subject} is live`,
    written: `Written as ${message}`,
  };
  return `${capitalize([texts[outcome] ?? `${subject}: ${outcome}`, reason].filter(Boolean).join("; "))}.`;
}

/** A preview as labels and values. */
export function describePreview(preview: Preview): [string, string][] {
  const ignored = (preview.warnings ?? []).map((warning): [string, string] => ["Ignores", warning]);
  return [...describePlan(preview), ...ignored];
}

function describePlan(preview: Preview): [string, string][] {
  const { outcome, reason, build, topics, slots, afterwards, stopped, resolvesTo } = preview;
  if (outcome === "rejected") return [["Rejected", reason ?? ""]];
  const names = Object.values(topicsOf(resolvesTo ?? {}));
  const cost: [string, string][] = [
    ...names.map((name): [string, string] => ["Reads", describeTopic(name, topics[name])]),
    ["Needs", `${plural(slots.needed ?? 0, "task slot")}; ${slots.held} of ${slots.total} in use`],
  ];
  return [
    ["Builds", build ?? `nothing${reason ? `: ${reason}` : ""}`],
    ...(build ? cost : []),
    ["Then live", afterwards.live ?? "nothing"],
    ["Standby", afterwards.standby ?? "nothing"],
    ["Stops", stopped.length ? stopped.map((number) => `generation ${number}`).join(", ") : "nothing"],
  ];
}

function describeTopic(name: string, topic?: PreviewTopic): string {
  if (!topic?.exists) return `${name}: ${topic?.reason ?? "unknown topic"}`;
  return `${name}: ${plural(topic.records ?? 0, "record")} in ${plural(topic.partitions ?? 0, "partition")}`;
}
