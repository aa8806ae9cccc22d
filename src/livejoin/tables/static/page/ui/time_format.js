/** Times and durations as text. Times are local or UTC, as the user prefers. */
import { preferences } from "./preferences.js";
const twoDigits = (number) => String(number).padStart(2, "0");
/** `2026-01-31T12:00:00.123Z`; the same with the zone, `2026-01-31T07:00:00.123-05:00`, if local. */
export function formatTime(ms) {
    const minutes = preferences.utc ? 0 : -Math.round(new Date(ms).getTimezoneOffset());
    const shifted = new Date(ms + minutes * 60_000);
    if (Number.isNaN(shifted.valueOf()))
        return String(ms); // out of the range of Date
    const text = shifted.toISOString();
    if (!minutes)
        return text;
    const zone = `${twoDigits(Math.floor(Math.abs(minutes) / 60))}:${twoDigits(Math.abs(minutes) % 60)}`;
    return `${text.slice(0, -1)}${minutes < 0 ? "-" : "+"}${zone}`;
}
/** `12:00:00`, for a recent time; UTC with a trailing Z. */
export function formatClock(ms) {
    return formatTime(ms).slice(11, 19) + (preferences.utc ? "Z" : "");
}
/** `12:00`, for a full minute of today. */
export function formatHour(ms) {
    return formatTime(ms).slice(11, 16) + (preferences.utc ? "Z" : "");
}
/** `12 ms`, `1.5 s`, `2 min 05 s`, `3 h 00 min`, `4 days`. */
export function formatDuration(ms) {
    const s = ms / 1000;
    if (s < 1)
        return `${Math.round(ms)} ms`;
    if (s < 60)
        return `${s.toFixed(1)} s`;
    const minutes = Math.floor(s / 60);
    if (minutes < 60)
        return `${minutes} min ${twoDigits(Math.floor(s % 60))} s`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `${hours} h ${twoDigits(minutes % 60)} min` : `${Math.floor(hours / 24)} days`;
}
/** Age of a record in one unit; tenths of a second within the first minute. */
export function formatAge(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 60)
        return `${s.toFixed(1)} s`;
    if (s < 5400)
        return `${Math.round(s / 60)} min`;
    return s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} days`;
}
/** The fields of `formatTime` for charts: the engine writes them in the browser's language. */
export function chartTimeFormat() {
    return {
        format: "custom",
        ...(preferences.utc ? { timeZone: "UTC" } : {}),
        year: "numeric",
        month: "2-digit",
        day: "2-digit",
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
        fractionalSecondDigits: 3,
        hour12: false,
    };
}
