/** Buttons that replace what was rejected by what was probably meant. */

import { button } from "../ui/dom.js";
import { nearest } from "./nearest.js";

/** A field of the message, the values that it can have, and how to give it another one. */
export type Correctable = { name: string; value: string; known: readonly string[]; correct: (value: string) => void };

export function correctionButtons(fields: Correctable[]): HTMLButtonElement[] {
  return fields.flatMap(({ name, value, known, correct }) => {
    const meant = nearest(value, known);
    if (!meant) return [];
    const created = button(`Use ${meant}`, { "data-correct": name }, () => {
      correct(meant);
      created.remove();
    });
    return [created];
  });
}
