/** Numbers, choices and outcomes as plain text. Insert it as text, never as HTML. */
export const formatCount = (count) => count.toLocaleString("en");
/** `1 row`, `2,000 rows`. */
export const plural = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
export const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const describeChoice = ({ usersTopic, accountsTopic, joinType }) => `${usersTopic} ${joinType} ${accountsTopic}`;
/** Partition and offset of a control message, as log lines name it. */
export const controlPosition = ({ partition, offset }) => `${partition}-${offset}`;
export function formatRate(perSecond) {
    if (perSecond === null)
        return "–";
    if (perSecond >= 10_000)
        return `${(perSecond / 1000).toFixed(0)} k/s`;
    return `${perSecond >= 100 || perSecond === 0 ? perSecond.toFixed(0) : perSecond.toFixed(1)}/s`;
}
const PENDING = ["accepted", "building", "caught-up", "written"];
const FAILED = ["rejected", "failed", "superseded", "cancelled"];
/** How the outcome of a control message is coloured. */
export function outcomeKind(outcome) {
    return PENDING.includes(outcome) ? "busy" : FAILED.includes(outcome) ? "bad" : "good";
}
