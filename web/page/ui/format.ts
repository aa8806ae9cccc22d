/** Numbers, choices and outcomes as plain text. Insert it as text, never as HTML. */

import type { Choice, ControlPosition } from "../../protocol/api_types.js";

export const formatCount = (count: number) => count.toLocaleString("en");

/** `1 row`, `2,000 rows`. */
export const plural = (count: number, noun: string) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/** `512 bytes`, `97.7 KiB`, `1.0 MiB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return plural(bytes, "byte");
  return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

export const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** `account` of accounts: sources are mostly called by a plural. */
export const singular = (name: string): string => (/[^s]s$/.test(name) ? name.slice(0, -1) : name);

/** `an account` of accounts. */
export const oneOf = (name: string): string => `${/^[aeio]/i.test(name) ? "an" : "a"} ${singular(name)}`;

export const listed = (names: Iterable<string>): string => new Intl.ListFormat("en").format(names);

const TOPIC_FIELD = /^(.+)Topic$/;

/** The topics of a choice or a row by source, the driver first; "" for one that is not given. */
export function topicsOf(choice: object): Record<string, string> {
  const found = Object.entries(choice).flatMap(([name, topic]) => {
    const [, source] = TOPIC_FIELD.exec(name) ?? [];
    return source ? [[source, topic ?? ""] as const] : [];
  });
  return Object.fromEntries(found);
}

/** `orders left customers, payments`, as far as it is given. */
export function describeChoice(choice: Partial<Choice>): string {
  const [driver, ...lookups] = Object.values(topicsOf(choice));
  return [driver, choice.joinType, lookups.filter(Boolean).join(", ")].filter(Boolean).join(" ");
}

/** Partition and offset of a record, as everywhere in texts. */
export const positionText = ({ partition, offset }: ControlPosition) => `${partition}/${offset}`;

export function formatRate(perSecond: number | null): string {
  if (perSecond === null) return "–";
  if (perSecond >= 10_000) return `${(perSecond / 1000).toFixed(0)} k/s`;
  return `${perSecond >= 100 || perSecond === 0 ? perSecond.toFixed(0) : perSecond.toFixed(1)}/s`;
}

const PENDING = ["accepted", "building", "caught-up", "written"];
const FAILED = ["rejected", "failed", "superseded", "cancelled"];

/** How the outcome of a control message is coloured. */
export function outcomeKind(outcome: string): "good" | "busy" | "bad" {
  return PENDING.includes(outcome) ? "busy" : FAILED.includes(outcome) ? "bad" : "good";
}
