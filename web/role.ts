/** Who is signed in, and what that person may do. */

import { ask } from "./asking.js";

export type Person = { role: "viewer" | "operator"; label: string };

/** A livejoin without sign-in lets everybody do everything. */
export async function whoami(): Promise<Person> {
  const answer = await ask<{ id: string; role: string; label: string }>("api/v1/whoami");
  if (!answer.ok) return { role: answer.status === 401 || answer.status === 403 ? "viewer" : "operator", label: "" };
  return { role: answer.body.role === "viewer" ? "viewer" : "operator", label: answer.body.label };
}
