/** The fields of a control message that the form has: one topic per source, and the join. They follow from the spec. */

import type { JoinSpec, TopicField } from "../../protocol/api_types.js";
import { capitalize, listed, oneOf, singular } from "../ui/format.js";

export type FormField = { name: TopicField; label: string };

export const topicFields = ({ control }: JoinSpec): FormField[] =>
  control.sources.map(({ name, field }) => ({ name: field, label: `${capitalize(name)} topic` }));

/** What a join shows; "" is that of a blank field. */
export function describeJoin(join: string, { control }: JoinSpec): string {
  const [driver = "", ...lookups] = control.sources.map(({ name }) => name);
  const others = listed(lookups.map(oneOf));
  const texts: Record<string, string> = {
    "": "The current join.",
    left: `Every ${singular(driver)} once, with the newest ${listed(lookups.map(singular))}.`,
    inner: `Every pair of ${oneOf(driver)} and ${others}; ${driver} without ${others} are left out.`,
    left_outer: `Every pair, and each ${singular(driver)} without ${others} once.`,
  };
  return texts[join] ?? "";
}
