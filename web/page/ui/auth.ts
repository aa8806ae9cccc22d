/** The signed-in user and the session, which is a cookie that scripts cannot read. */

import type { User } from "../../protocol/api_types.js";
import { get, post } from "../../protocol/http.js";

type Credentials = { token: string } | { code: string } | { renew: true };

const RETRY_MS = 1000;
const RENEW_MS = 30 * 60_000; // a session lasts 12 hours

let signedIn: User | null = null;

/** The user that livejoin reported last. */
export const currentUser = (): User | null => signedIn;

/** Ask livejoin who is signed in; retries while it does not answer. The role is also in `<html data-role>`. */
export async function fetchUser(): Promise<User | null> {
  for (;;) {
    const response = await get<User>("api/v1/whoami");
    if (response.status !== 0 && response.status !== 503) {
      signedIn = response.ok ? response.body : null;
      document.documentElement.dataset["role"] = signedIn?.role ?? "";
      return signedIn;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS)); // down, or still reading its tokens
  }
}

/** Start a session. Returns why it failed, or "". */
export async function startSession(credentials: Credentials): Promise<string> {
  return (await post("api/v1/session", JSON.stringify(credentials))).error;
}

export function keepSessionAlive(): void {
  setInterval(() => startSession({ renew: true }), RENEW_MS);
}
