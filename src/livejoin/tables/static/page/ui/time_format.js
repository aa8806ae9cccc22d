/** Moments and spans as text. Moments are local or UTC, as the person prefers. */
import { prefs } from "./preferences.js";
const two = (number) => String(number).padStart(2, "0");
/** `2026-01-31 12:00:00.123`, with a Z where it is UTC. */
export function moment(ms) {
    const shifted = prefs.utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000;
    const time = new Date(shifted);
    if (Number.isNaN(time.valueOf()))
        return String(ms); // beyond what a date can be
    return time
        .toISOString()
        .replace("T", " ")
        .replace("Z", prefs.utc ? "Z" : "");
}
/** `12:00:00`, for a moment of today or nearly so. */
export function clock(ms) {
    return moment(ms).slice(11, 19) + (prefs.utc ? "Z" : "");
}
/** How long something took, or has been so. */
export function span(ms) {
    const s = ms / 1000;
    if (s < 1)
        return `${Math.round(ms)} ms`;
    if (s < 60)
        return `${s.toFixed(1)} s`;
    const minutes = Math.floor(s / 60);
    if (minutes < 60)
        return `${minutes} min ${two(Math.floor(s % 60))} s`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `${hours} h ${two(minutes % 60)} min` : `${Math.floor(hours / 24)} days`;
}
/** The age of the newest record: to a tenth while it is young. */
export function age(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 60)
        return `${s.toFixed(1)} s`;
    if (s < 5400)
        return `${Math.round(s / 60)} min`;
    return s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} days`;
}
/** How the grid shows its times: as `moment` does, in the browser's way of writing numbers. */
export function gridFormat() {
    return {
        format: "custom",
        ...(prefs.utc ? { timeZone: "UTC" } : {}),
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
