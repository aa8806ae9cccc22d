/** The cells of a record: position, time, key, headers, and its value parsed or raw, with the reason of a reject. */

import type { RecordHeader, TopicRecord } from "../../protocol/api_types.js";
import { element } from "../ui/dom.js";
import { formatBytes, plural } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { formatTime } from "../ui/time_format.js";

const NULL = "–"; // as in every table
const LINE_CHARS = 400; // of a value, or of one field, in one line; opened it is shown whole
const BEFORE_MATCH_CHARS = 40; // of a long value whose beginning is left out

/** How records are shown: as a source parses them or raw, and what is searched for. */
export type RecordStyle = { parsed: boolean; search: string };

/** Where a record is in its topic. */
export type Place = { partition: number; offset: number };

export function timeOf({ timestamp }: TopicRecord): string {
  if (timestamp === null) return "no timestamp";
  const ms = Date.parse(timestamp);
  return Number.isNaN(ms) ? timestamp : formatTime(ms); // a producer may write any number
}

export function keyCell({ key }: TopicRecord, { search }: RecordStyle): Node {
  return key === null ? nullMark() : highlighted(key, search);
}

export function headersCell({ headers, headersLeftOut }: TopicRecord): Node {
  const more = headersLeftOut ? `, and ${headersLeftOut} more` : "";
  const text = headers.map((header) => `${header.name}=${headerText(header)}`).join(", ") + more;
  return element("span", { title: text }, text);
}

/** One line, which opens to the whole value with its headers. */
export function valueCell(
  record: TopicRecord,
  style: RecordStyle,
  open: boolean,
  onToggle: (open: boolean) => void,
): Node[] {
  const line = element("span", { class: "line" }, ...lineOf(record, style));
  const details = element("details", {}, element("summary", {}, line));
  const show = () => {
    if (details.open && !details.querySelector(".whole")) details.append(whole(record, style));
    onToggle(details.open);
  };
  details.open = open;
  if (open) show();
  details.addEventListener("toggle", show);
  return [details, ...reasonOf(record)];
}

/** A tombstone is no reject. */
function reasonOf({ reason, value }: TopicRecord): Node[] {
  if (reason === null) return [];
  if (value === null) return [element("p", { class: "muted" }, reason)];
  return [element("p", { class: "reason" }, icon("warning"), element("span", {}, reason))];
}

function lineOf({ value, parsed }: TopicRecord, style: RecordStyle): Node[] {
  if (value === null) return [nullMark()];
  if (!style.parsed || parsed === null) return [highlighted(excerpt(value, style), style.search)];
  return Object.entries(parsed).map(([name, field]) => {
    const shown = field === null ? nullMark() : highlighted(excerpt(fieldText(field), style), style.search);
    return element("span", { class: "field" }, element("span", { class: "muted" }, name), "\u00a0", shown);
  });
}

function whole(record: TopicRecord, style: RecordStyle): HTMLElement {
  const { value, valueBytes, cut, parsed, headers, headersLeftOut } = record;
  const parts: Node[] = [];
  if (style.parsed && parsed !== null) {
    const rows = Object.entries(parsed).map(([name, field]) => row(name, fieldValue(field, style)));
    parts.push(element("table", { class: "plain" }, element("tbody", {}, ...rows)));
  } else if (value !== null) {
    parts.push(element("pre", { class: "raw" }, highlighted(value, style.search)));
  }
  const shown = cut && !(style.parsed && parsed !== null) ? ", the first 4 KiB" : "";
  if (valueBytes !== null) parts.push(element("p", { class: "muted" }, `${formatBytes(valueBytes)}${shown}`));
  if (headers.length) {
    const rows = headers.map((header) => row(header.name, headerValue(header)));
    const more = headersLeftOut ? `, and ${plural(headersLeftOut, "more header")}` : "";
    parts.push(
      element("h4", {}, `Headers${more}`),
      element("table", { class: "plain" }, element("tbody", {}, ...rows)),
    );
  }
  return element("div", { class: "whole", tabindex: 0, role: "group", "aria-label": "the whole value" }, ...parts);
}

const row = (name: string, value: Node) =>
  element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value));

function fieldValue(field: unknown, { search }: RecordStyle): Node {
  if (field === null) return nullMark();
  return highlighted(fieldText(field), search);
}

const fieldText = (field: unknown): string => (typeof field === "string" ? field : JSON.stringify(field));

/** The part of a long text that has what was searched for. */
function excerpt(text: string, { search }: RecordStyle): string {
  const found = search ? text.toLowerCase().indexOf(search.toLowerCase()) : -1;
  const start = text.length > LINE_CHARS && found > 2 * BEFORE_MATCH_CHARS ? found - BEFORE_MATCH_CHARS : 0;
  return (start ? "…" : "") + text.slice(start, start + LINE_CHARS);
}

function headerText({ text, base64 }: RecordHeader): string {
  return base64 === null ? (text ?? NULL) : `base64:${base64}`;
}

function headerValue(header: RecordHeader): Node {
  if (header.bytes === null) return nullMark();
  const { length } = new TextEncoder().encode(header.text ?? atob(header.base64 ?? ""));
  const cut = header.text !== null && length < header.bytes ? `… of ${formatBytes(header.bytes)}` : "";
  return element("span", {}, headerText(header), cut && element("span", { class: "muted" }, cut));
}

const nullMark = () => element("span", { class: "muted", title: "null" }, NULL);

/** The text, with what was searched for marked. */
function highlighted(text: string, search: string): HTMLElement {
  const parts: (Node | string)[] = [];
  const [lower, needle] = [text.toLowerCase(), search.toLowerCase()];
  let at = 0;
  // lower case may have another length, as that of İ has
  while (needle && lower.length === text.length) {
    const found = lower.indexOf(needle, at);
    if (found < 0) break;
    parts.push(text.slice(at, found), element("mark", {}, text.slice(found, found + needle.length)));
    at = found + needle.length;
  }
  return element("span", {}, ...parts, text.slice(at));
}
