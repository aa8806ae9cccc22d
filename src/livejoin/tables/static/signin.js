// @ts-check
/**
 * Who is there: the page starts once livejoin knows. A code in the address is used once and taken out of it; otherwise
 * a person is asked for a token. What follows is a cookie that scripts cannot read.
 */

/** @typedef {{id: string, role: "viewer" | "operator", label: string}} Who */

const RENEW_MS = 30 * 60_000; // a session lasts for 12 hours
const AGAIN_MS = 1000;
const CODE = "code";

/** @param {string} method @param {string} path @param {object} [body] */
const ask = (method, path, body) =>
  fetch(`api/v1/${path}`, {
    method,
    headers: { "content-type": "application/json", "livejoin-client": "page" },
    body: body && JSON.stringify(body),
  });

/** @returns {Promise<Who | null>} who we are; nobody, if livejoin does not know us */
export async function whoami() {
  for (;;) {
    const answer = await ask("GET", "whoami").catch(() => null);
    if (answer?.ok) return shown(await answer.json());
    if (answer && answer.status !== 503) return shown(null);
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS)); // it is away, or has not read its tokens yet
  }
}

/** @param {{token: string} | {code: string} | {renew: true}} given @returns {Promise<string>} why not, or nothing */
async function signIn(given) {
  try {
    const answer = await ask("POST", "session", given);
    if (answer.ok) return "";
    return (await answer.json()).detail;
  } catch (error) {
    return `livejoin cannot be reached: ${error}`;
  }
}

export async function signOut() {
  await ask("DELETE", "session");
  location.reload();
}

/** @param {Who | null} who @returns {Who | null} the same; what may be done is for style sheets and scripts to see */
function shown(who) {
  document.documentElement.dataset.role = who?.role ?? "";
  return who;
}

/** @returns {string | null} the code of the address, which does not stay there */
function takeCode() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const code = parts.get(CODE);
  if (code === null) return null;
  parts.delete(CODE);
  const rest = parts.toString();
  history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
  return code;
}

/** @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name @param {Partial<HTMLElementTagNameMap[Name]>} properties @param {Node[]} children */
function made(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** Ask a person for a token until one counts. @param {string} why */
function form(why) {
  const field = made("input", { type: "password", name: "token", required: true, autocomplete: "current-password" });
  const said = made("p", { role: "alert", textContent: why });
  const button = made("button", { textContent: "Sign in" });
  const entry = made(
    "form",
    { method: "dialog" },
    made("h2", { textContent: "Sign in to livejoin" }),
    made("label", { textContent: "Token " }, field),
    button,
    said,
    made("p", { textContent: "An operator makes tokens with the command: livejoin token make --role viewer" }),
  );
  const dialog = made("dialog", { id: "sign-in" }, entry);
  dialog.style.cssText = "border: 1px solid gray; border-radius: 0.5rem; padding: 0.5rem 2rem; max-width: 32rem";
  field.style.cssText = "display: block; width: 100%; box-sizing: border-box; margin: 0.3rem 0 0.8rem; font: inherit";
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();
  return /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      entry.onsubmit = async (event) => {
        event.preventDefault();
        button.disabled = true;
        said.textContent = await signIn({ token: field.value });
        button.disabled = false;
        field.value = "";
        if (said.textContent || !(await whoami())) return field.focus();
        dialog.remove();
        resolve();
      };
    })
  );
}

/** @param {string} [why] */
async function signedIn(why = "") {
  if (!(await whoami())) await form(why);
}

/** @type {Promise<void> | null} */ let asking = null;

/** The socket was lost, maybe since we are not known any more. */
function lost() {
  asking ??= signedIn("You were signed out.").finally(() => (asking = null));
}

const code = takeCode();
await signedIn(code === null ? "" : await signIn({ code }));
addEventListener("livejoin-lost", lost);
setInterval(() => signIn({ renew: true }), RENEW_MS);
await import("./page.js");
