/** The fields of a control message that the form has: one topic per source, and the join. They follow from the spec. */
import { capitalize, listed, oneOf, singular } from "../ui/format.js";
export const topicFields = ({ control }) => control.sources.map(({ name, field }) => ({ name: field, label: `${capitalize(name)} topic` }));
/** What a join shows; "" is that of a blank field. */
export function describeJoin(join, { control }) {
    const [driver = "", ...lookups] = control.sources.map(({ name }) => name);
    const others = listed(lookups.map(oneOf));
    const texts = {
        "": "The current join.",
        left: `Every ${singular(driver)} once, with the newest ${listed(lookups.map(singular))}.`,
        inner: `Every pair of ${oneOf(driver)} and ${others}; ${driver} without ${others} are left out.`,
        left_outer: `Every pair, and each ${singular(driver)} without ${others} once.`,
    };
    return texts[join] ?? "";
}
