/**
 * What has happened, from the tables that tell of it: control messages, generations, the log. Pure.
 * A message and the generation that it asked for are one event.
 */
const BUILT_FOR = /^control (\d+): building generation (\d+)\b/;
const BACK = /^control (\d+): generation (\d+) is live again$/;
const MOVED = /^(?:live|rolled back): .*\bgeneration (\d+), [^→]*$/;
/** When the names moved to which generation, the oldest first. */
export function moves(lines) {
    const found = [];
    for (const { ts, msg } of [...lines].sort(inOrder)) {
        const moved = MOVED.exec(msg);
        if (moved)
            found.push([ts, Number(moved[1])]);
    }
    return found;
}
/** How a generation spent its time. */
export function stages(generation, moved) {
    const { generation: number, requestedAt, catchUpSeconds, retiredAt } = generation;
    const readyAt = catchUpSeconds === null ? null : requestedAt + 1000 * catchUpSeconds;
    const ended = retiredAt ?? null;
    const built = { name: "build", from: requestedAt, to: readyAt ?? ended };
    if (readyAt === null)
        return [built];
    const found = [built];
    // what the log has let go by now is taken for a move at the time of being ready
    const known = moved.some(([, to]) => to === number)
        ? moved
        : [...moved, [readyAt, number]].sort((a, b) => a[0] - b[0]);
    let now = null;
    for (const [at, to] of known) {
        const name = to === number ? "live" : now ? "standby" : null;
        if (name === null || now?.name === name)
            continue;
        if (now)
            now.to = at;
        now = { name, from: at, to: null };
        found.push(now);
    }
    if (now)
        now.to = ended;
    return found;
}
const inOrder = (a, b) => a.ts - b.ts || (a._id < b._id ? -1 : 1);
/** Whether a line speaks of a message, or of a generation. */
export function speaksOf(line, message, generation) {
    if (message && new RegExp(`^control ${message.offset}\\b`).test(line.msg))
        return true;
    return generation !== null && new RegExp(`\\bgeneration ${generation.generation}\\b`).test(line.msg);
}
/** All events, the newest first. */
export function events(messages, generations, lines) {
    const builtFor = new Map(); // by message
    const backTo = new Map();
    for (const { msg } of lines) {
        const built = BUILT_FOR.exec(msg);
        const back = BACK.exec(msg);
        if (built)
            builtFor.set(Number(built[1]), Number(built[2]));
        if (back)
            backTo.set(Number(back[1]), Number(back[2]));
    }
    const moved = moves(lines);
    const byNumber = new Map(generations.map((one) => [one.generation, one]));
    const before = (at, own) => {
        const last = moved.filter(([when, to]) => when <= at && to !== own).at(-1);
        return last ? (byNumber.get(last[1]) ?? null) : null;
    };
    const found = [];
    const asked = new Set();
    for (const message of messages) {
        const number = builtFor.get(message.offset);
        const generation = number === undefined ? null : (byNumber.get(number) ?? null);
        const back = byNumber.get(backTo.get(message.offset) ?? 0) ?? null;
        if (generation)
            asked.add(generation.generation);
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
        if (asked.has(generation.generation))
            continue;
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
export function linesOf({ message, generation }, lines) {
    return lines.filter((line) => speaksOf(line, message, generation)).sort(inOrder);
}
