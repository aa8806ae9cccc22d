/** Values over time, coarser for longer time ranges, so that memory is bounded. Pure: times are arguments. */
export const TIME_RANGES = [
    { label: "2 min", ms: 120_000, stepMs: 1000 }, // a point per heartbeat
    { label: "15 min", ms: 900_000, stepMs: 5000 },
    { label: "1 h", ms: 3_600_000, stepMs: 20_000 },
];
export class TimeSeries {
    #points = new Map(TIME_RANGES.map((range) => [range, []]));
    /** Null is a gap. Times ascend; after a clock was set back, what is later than it is forgotten. */
    add(at, value) {
        if (value === null)
            return;
        for (const [{ ms, stepMs }, points] of this.#points) {
            while (points.length && points.at(-1).at > at)
                points.pop();
            const last = points.at(-1);
            if (last && Math.floor(last.at / stepMs) === Math.floor(at / stepMs)) {
                last.at = at;
                last.count += 1;
                last.mean += (value - last.mean) / last.count;
                last.min = Math.min(last.min, value);
                last.max = Math.max(last.max, value);
            }
            else {
                points.push({ at, mean: value, min: value, max: value, count: 1 });
            }
            while (points[0].at < at - ms)
                points.shift();
        }
    }
    /** Oldest first. */
    points(range) {
        return this.#points.get(range) ?? [];
    }
}
const GAP_MS = 3000; // heartbeats come every second
/** Points with no gap between them. */
export function unbroken(points, { stepMs }) {
    const parts = [];
    for (const point of points) {
        const part = parts.at(-1);
        if (part && point.at - part.at(-1).at < stepMs + GAP_MS)
            part.push(point);
        else
            parts.push([point]);
    }
    return parts;
}
