/** Line icons on a 16 by 16 grid, in the colour of the surrounding text. */
import { button, svgElement } from "./dom.js";
const PATHS = {
    settings: "M2 4h7M13 4h1M2 8h2M8 8h6M2 12h6M12 12h2M11 2.5v3M6 6.5v3M10 10.5v3",
    copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
    download: "M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
    widen: "M9.5 2.5h4v4M6.5 13.5h-4v-4M13 3 9.5 6.5M3 13l3.5-3.5",
    narrow: "M13.5 6.5h-4v-4M2.5 9.5h4v4M10 6l3.5-3.5M6 10l-3.5 3.5",
    fold: "M3.5 6 8 10.5 12.5 6",
    unfold: "M6 3.5 10.5 8 6 12.5",
    pause: "M5.5 3v10M10.5 3v10",
    resume: "M5 3v10l8-5z",
    light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
    dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
    system: "M2 3h12v8H2zM5.5 14h5M8 11v3",
    help: "M5.5 6a2.5 2.5 0 1 1 3.5 2.3c-.7.4-1 .8-1 1.7M8 12.5v.5",
    reset: "M3 8a5 5 0 1 0 1.5-3.6M3 2v3h3",
    up: "M4 9.5 8 5.5l4 4",
    down: "M4 6.5 8 10.5l4-4",
    add: "M8 3v10M3 8h10",
    remove: "M4 4l8 8M12 4l-8 8",
    swap: "M2.5 5.5h10M10 3l2.5 2.5L10 8M13.5 10.5h-10M6 8l-2.5 2.5L6 13",
    // of events
    live: "M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z",
    building: "M4.5 2.5h7M4.5 13.5h7M5 2.5c0 4 6 7 6 11M11 2.5c0 4-6 7-6 11",
    standby: "M5.5 4v8M10.5 4v8",
    "rolled-back": "M6 3 2.5 6.5 6 10M3 6.5h6.5a3.5 3.5 0 0 1 0 7H7",
    "no-change": "M3.5 6h9M3.5 10h9",
    retired: "M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 9h3",
    stopped: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 4.2l7.6 7.6",
    failed: "M4 4l8 8M12 4l-8 8",
    warning: "M8 2.5 14 13.5H2zM8 6.5v3.5M8 11.7v.3",
};
export function icon(name) {
    const path = svgElement("path", { d: PATHS[name] });
    return svgElement("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, path);
}
export function iconButton(name, title, onClick) {
    const created = button("", { class: "flat icon-only", title, "aria-label": title }, onClick);
    created.append(icon(name));
    return created;
}
