/** The fields of a control message that the form has: one topic per source, and the join. They follow from the spec. */

import type { JoinSpec, TopicField } from "../../protocol/api_types.js";
import { capitalize } from "../ui/format.js";

export type FormField = { name: TopicField; label: string };

export const topicFields = ({ control }: JoinSpec): FormField[] =>
  control.sources.map(({ name, field }) => ({ name: field, label: `${capitalize(name)} topic` }));

/** What a join shows; "" is that of a blank field. */
export function describeJoin(join: string, { control }: JoinSpec): string {
  const [driver = "", ...lookups] = control.sources.map(({ name }) => name);
  const newest = new Intl.ListFormat("en").format(lookups);
  const texts: Record<string, string> = {
    "": "The current join.",
    left: `Every row of ${driver} once, with the newest of ${newest}.`,
    inner: `Every pair of ${driver} and ${newest}; ${driver} without ${newest} are left out.`,
    left_outer: `Every pair, and each row of ${driver} without ${newest} once.`,
  };
  return texts[join] ?? "";
}
