/** Buttons that replace what was rejected by what was probably meant. */
import { button } from "../ui/dom.js";
import { nearest } from "./nearest.js";
export function correctionButtons(fields) {
    return fields.flatMap(({ name, value, known, correct }) => {
        const meant = nearest(value, known);
        if (!meant)
            return [];
        const created = button(`Use ${meant}`, { "data-correct": name }, () => {
            correct(meant);
            created.remove();
        });
        return [created];
    });
}
