/** The signed-in user and the session, which is a cookie that scripts cannot read. */

import type { User } from "../../protocol/api_types.js";
import { get, post, remove } from "../../protocol/http.js";

type Credentials = { token: string } | { code: string } | { renew: true };

const RETRY_MS = 1000;
const RENEW_MS = 30 * 60_000; // a session lasts 12 hours
const NOTICE_KEY = "livejoin.sign-out-notice"; // for the sign-in after a sign-out
const NO_SIGN_IN = "anybody"; // the id of every user of a livejoin without authentication

let signedIn: User | null = null;

/** Dispatches `user` when livejoin reports another user or role. */
export const users = new EventTarget();

/** The user that livejoin reported last. */
export const currentUser = (): User | null => signedIn;

/** Whether the user has signed in, and so can sign out. */
export const hasSignedIn = ({ id }: User): boolean => id !== NO_SIGN_IN;

/** Ask livejoin who is signed in; retries while it does not answer. The role is also in `<html data-role>`. */
export async function fetchUser(): Promise<User | null> {
  for (;;) {
    const response = await get<User>("api/v1/whoami");
    if (response.status !== 0 && response.status !== 503) {
      const previous = signedIn;
      signedIn = response.ok ? response.body : null;
      document.documentElement.dataset["role"] = signedIn?.role ?? "";
      if (signedIn?.id !== previous?.id || signedIn?.role !== previous?.role) users.dispatchEvent(new Event("user"));
      return signedIn;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS)); // down, or still reading its tokens
  }
}

/** Start a session. Returns why it failed, or "". */
export async function startSession(credentials: Credentials): Promise<string> {
  return (await post("api/v1/session", JSON.stringify(credentials))).error;
}

/** End the session; the page is loaded anew, without the rows. Returns why it failed. */
export async function signOut(): Promise<string> {
  const response = await remove("api/v1/session");
  if (response.status === 0) return response.error;
  // 503: the session has ended on this server, and the others were not told yet
  sessionStorage.setItem(NOTICE_KEY, response.ok ? "You are signed out." : response.error);
  location.reload();
  return "";
}

/** What the sign-in says after a sign-out; "" if there was none. */
export function takeNotice(): string {
  const notice = sessionStorage.getItem(NOTICE_KEY) ?? "";
  sessionStorage.removeItem(NOTICE_KEY);
  return notice;
}

export function keepSessionAlive(): void {
  setInterval(() => startSession({ renew: true }), RENEW_MS);
}
