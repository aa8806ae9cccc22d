/** What livejoin answers, in words. Plain text throughout: whoever shows it must not take it for HTML. */
export const counted = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
export const choice = ({ usersTopic, accountsTopic, joinType }) => `${usersTopic} ${joinType} ${accountsTopic}`;
export const newestOf = (table, shown, total) => `${table}: the newest ${shown.toLocaleString("en")} of ${counted(total, "row")}`;
export const cappedAt = (table, rows, from) => `${table} is full: ${counted(rows, "row")}, from ${from} on`;
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
/** How many per second, in few characters. */
export function perSecond(rate) {
    if (rate === null)
        return "–";
    if (rate >= 10_000)
        return `${(rate / 1000).toFixed(0)} k/s`;
    return `${rate >= 100 || rate === 0 ? rate.toFixed(0) : rate.toFixed(1)}/s`;
}
const UNDER_WAY = ["accepted", "building", "caught-up", "written"];
const BAD = ["rejected", "failed", "superseded", "cancelled"];
export function kindOf(outcome) {
    return UNDER_WAY.includes(outcome) ? "busy" : BAD.includes(outcome) ? "bad" : "good";
}
/** What became of a message. */
export function answered({ offset, outcome, reason, generation }) {
    const what = generation ? `generation ${generation}` : `control message ${offset}`;
    const said = {
        accepted: `Accepted: ${what} is being built`,
        building: `${what} is being built`,
        "caught-up": `${what} has caught up`,
        live: `${what} is live`,
        written: `Written as control message ${offset}`,
    };
    return `${sentence([said[outcome] ?? `${what}: ${outcome}`, reason].filter(Boolean).join("; "))}.`;
}
function read(name, topic) {
    if (!topic?.exists)
        return `${name}: ${topic?.reason ?? "nothing is known of it"}`;
    return `${name}: ${counted(topic.records ?? 0, "record")} in ${counted(topic.partitions ?? 0, "partition")}`;
}
/** What, and how it would be. */
export function previewed({ outcome, reason, build, topics, slots, afterwards, stopped, resolvesTo, }) {
    if (outcome === "rejected")
        return [["Rejected", reason ?? ""]];
    const names = resolvesTo ? [resolvesTo.usersTopic, resolvesTo.accountsTopic] : [];
    const cost = [
        ...names.map((name) => ["Reads", read(name, topics[name])]),
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
