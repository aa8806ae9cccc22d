// @ts-check
/** What livejoin answers, in words. Plain text throughout: whoever shows it must not take it for HTML. */

/** @typedef {{generation: number, usersTopic: string, accountsTopic: string, joinType: string, state: string}} Generation
 *    a row of `generations` */
/** @typedef {{offset: number, outcome: string, reason: string | null, generation?: number | null}} Answer */
/** @typedef {{exists: boolean, reason?: string, partitions?: number, records?: number}} Topic */
/** @typedef {{outcome: string, reason: string | null, build: string | null, topics: Record<string, Topic>,
 *   slots: {needed: number | null, held: number, total: number}, stopped: number[],
 *   resolvesTo: {usersTopic: string, accountsTopic: string} | null,
 *   afterwards: {live: string | null, standby: string | null}}} Preview */

/** @param {number} count @param {string} one */
const counted = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

/** @param {{usersTopic: string, accountsTopic: string, joinType: string}} chosen */
export const choice = ({ usersTopic, accountsTopic, joinType }) => `${usersTopic} ${joinType} ${accountsTopic}`;

/** @param {string} table @param {number} shown @param {number} total */
export const newestOf = (table, shown, total) =>
  `${table}: the newest ${shown.toLocaleString("en")} of ${counted(total, "row")}`;

const UNDER_WAY = ["accepted", "building", "caught-up", "written"];
const BAD = ["rejected", "failed", "superseded", "cancelled"];

/** @param {string} outcome @returns {"good" | "busy" | "bad"} */
export function kindOf(outcome) {
  return UNDER_WAY.includes(outcome) ? "busy" : BAD.includes(outcome) ? "bad" : "good";
}

/** @param {Answer} answer what became of a message @returns {string} */
export function answered({ offset, outcome, reason, generation }) {
  const what = generation ? `generation ${generation}` : `control message ${offset}`;
  /** @type {Record<string, string>} */
  const said = {
    accepted: `Accepted: ${what} is being built`,
    building: `${what} is being built`,
    "caught-up": `${what} has caught up`,
    live: `${what} is live`,
    written: `Written as control message ${offset}`,
  };
  const text = [said[outcome] ?? `${what}: ${outcome}`, reason].filter(Boolean).join("; ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** @param {string} name @param {Topic} [topic] */
function read(name, topic) {
  if (!topic?.exists) return `${name}: ${topic?.reason ?? "nothing is known of it"}`;
  return `${name}: ${counted(topic.records ?? 0, "record")} in ${counted(topic.partitions ?? 0, "partition")}`;
}

/** @param {Preview} preview @returns {[string, string][]} what, and how it would be */
export function previewed({ outcome, reason, build, topics, slots, afterwards, stopped, resolvesTo }) {
  if (outcome === "rejected") return [["Rejected", reason ?? ""]];
  const names = resolvesTo ? [resolvesTo.usersTopic, resolvesTo.accountsTopic] : [];
  /** @type {[string, string][]} */
  const cost = [
    ...names.map((name) => /** @type {[string, string]} */ (["Reads", read(name, topics[name])])),
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
