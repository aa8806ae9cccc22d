/** What the topic browser asks for: which records of which topic, and the path of that request. Pure. */
const COUNT = 50;
export function peekPath({ topic, partition, search, position }) {
    const parameters = new URLSearchParams({ count: String(COUNT), ...positionParameter(position) });
    if (partition)
        parameters.set("partition", partition);
    if (search)
        parameters.set("search", search);
    return `api/v1/topics/${encodeURIComponent(topic)}/peek?${parameters}`;
}
function positionParameter(position) {
    switch (position.from) {
        case "newest":
            return {};
        case "oldest":
            return { time: "earliest" };
        case "time":
            return { time: position.time };
        case "offset":
            return { offset: position.offset };
        default:
            return { [position.from]: position.cursor };
    }
}
/** Whether the answer begins with its newest record. */
export const isNewestFirst = ({ from }) => from === "newest" || from === "older";
