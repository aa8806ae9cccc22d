/**
 * Who is there: the page starts once livejoin knows. A code in the address is used once and taken out of it; otherwise
 * a person is asked for a token. What follows is a cookie that scripts cannot read.
 */

import { post } from "../../protocol/http.js";
import { make, put } from "./dom.js";
import { whoami } from "./signed_in_user.js";

type Given = { token: string } | { code: string } | { renew: true };

const RENEW_MS = 30 * 60_000; // a session lasts for 12 hours
const CODE = "code";

/** Why not, or nothing. */
const signIn = async (given: Given): Promise<string> => (await post("api/v1/session", JSON.stringify(given))).why;

/** The code of the address, which does not stay there. */
function takeCode(): string | null {
  const parts = new URLSearchParams(location.hash.slice(1));
  const code = parts.get(CODE);
  if (code === null) return null;
  parts.delete(CODE);
  const rest = parts.toString();
  history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
  return code;
}

/** Ask a person for a token until one counts. */
function form(why: string): Promise<void> {
  const field = make("input", { type: "password", name: "token", required: true, autocomplete: "current-password" });
  const said = make("p", { role: "alert" }, why);
  const button = make("button", { class: "main" }, "Sign in");
  const hint = make("p", {}, "An operator makes tokens with the command: livejoin token make --role viewer");
  const entry = make("form", {}, make("label", {}, "Token ", field), button, said, hint);
  const dialog = make("dialog", { id: "sign-in" }, make("h2", {}, "Sign in to livejoin"), entry);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    entry.onsubmit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      put(said, await signIn({ token: field.value }));
      button.disabled = false;
      field.value = "";
      if (said.textContent || !(await whoami())) return field.focus();
      dialog.remove();
      resolve();
    };
  });
}

async function signedIn(why = ""): Promise<void> {
  if (!(await whoami())) await form(why);
}

let asking: Promise<void> | null = null;

/** The socket was lost, maybe since we are not known any more. */
function lost(): void {
  asking ??= signedIn("You were signed out.").finally(() => (asking = null));
}

const code = takeCode();
await signedIn(code === null ? "" : await signIn({ code }));
addEventListener("livejoin-lost", lost);
setInterval(() => signIn({ renew: true }), RENEW_MS);
await import("../../page.js");
