/** Who is signed in, and what that person may do. Asked by whoever signs somebody in; known to all others. */

import { ask } from "../../protocol/http.js";

export type Person = { id: string; role: "viewer" | "operator"; label: string };

const AGAIN_MS = 1000;

let known: Person | null = null;

/** Who is there, as livejoin said last. */
export const person = (): Person | null => known;

/** Who we are; nobody, if livejoin does not know us. What may be done is for style sheets and scripts to see. */
export async function whoami(): Promise<Person | null> {
  for (;;) {
    const answer = await ask<Person>("api/v1/whoami");
    if (answer.status !== 0 && answer.status !== 503) {
      known = answer.ok ? answer.body : null;
      document.documentElement.dataset["role"] = known?.role ?? "";
      return known;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS)); // it is away, or has not read its tokens yet
  }
}
