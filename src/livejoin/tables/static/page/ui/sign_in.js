/**
 * Entry point of the page: signs the user in, then loads the page itself. A one-time code in the address is used and
 * removed from it; without one, a dialog asks for a token.
 */
import { fetchUser, keepSessionAlive, startSession, takeNotice } from "./auth.js";
import { element, setText } from "./dom.js";
const CODE = "code";
/** Read the one-time code and remove it from the address. */
function takeCode() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const code = parameters.get(CODE);
    if (code === null)
        return null;
    parameters.delete(CODE);
    const rest = parameters.toString();
    history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
    return code;
}
/** Ask for tokens until one is accepted. */
function askForToken(error) {
    const field = element("input", { type: "password", name: "token", required: true, autocomplete: "current-password" });
    const alert = element("p", { role: "alert" }, error);
    const submit = element("button", { class: "primary" }, "Sign in");
    const hint = element("p", {}, "An operator creates tokens with: livejoin token make --role viewer");
    const form = element("form", {}, element("label", {}, "Token ", field), submit, alert, hint);
    const dialog = element("dialog", { id: "sign-in" }, element("h2", {}, "Sign in to livejoin"), form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((resolve) => {
        form.onsubmit = async (event) => {
            event.preventDefault();
            submit.disabled = true;
            setText(alert, await startSession({ token: field.value }));
            submit.disabled = false;
            field.value = "";
            if (alert.textContent || !(await fetchUser()))
                return field.focus();
            dialog.remove();
            resolve();
        };
    });
}
async function ensureSignedIn(error = "") {
    if (!(await fetchUser()))
        await askForToken(error);
}
let checking = null;
/** The session may have ended: that, too, closes the socket. */
function checkSession() {
    checking ??= ensureSignedIn("You were signed out.").finally(() => (checking = null));
}
const code = takeCode();
const notice = takeNotice();
await ensureSignedIn(code === null ? notice : await startSession({ code }));
addEventListener("livejoin-disconnected", checkSession);
keepSessionAlive();
await import("../../page.js").catch((error) => {
    // the page is hidden until it is ready: say why it stays so
    const text = `The page could not be loaded: ${String(error)}. Reload it.`;
    const notLoaded = element("p", { id: "not-loaded", role: "alert" }, text);
    if (document.body.dataset["ready"] === undefined)
        document.body.append(notLoaded);
    throw error;
});
