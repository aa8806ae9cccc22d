/** What the topic browser asks for: which records of which topic, and the path of that request. Pure. */

const COUNT = 50;

export type Position =
  | { from: "newest" | "oldest" }
  | { from: "time"; time: string } // ISO, or an age such as 1h
  | { from: "offset"; offset: string } // of the one partition
  | { from: "older" | "newer"; cursor: string }; // of an earlier answer

export type PeekQuery = {
  topic: string;
  partition: string; // "" for all
  search: string;
  position: Position;
};

export function peekPath({ topic, partition, search, position }: PeekQuery): string {
  const parameters = new URLSearchParams({ count: String(COUNT), ...positionParameter(position) });
  if (partition) parameters.set("partition", partition);
  if (search) parameters.set("search", search);
  return `api/v1/topics/${encodeURIComponent(topic)}/peek?${parameters}`;
}

function positionParameter(position: Position): Record<string, string> {
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
export const isNewestFirst = ({ from }: Position): boolean => from === "newest" || from === "older";
