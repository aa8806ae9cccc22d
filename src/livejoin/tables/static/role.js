/** Who is signed in, and what that person may do. */
import { ask } from "./asking.js";
/** A livejoin without sign-in lets everybody do everything. */
export async function whoami() {
    const answer = await ask("api/v1/whoami");
    if (!answer.ok)
        return { role: answer.status === 401 || answer.status === 403 ? "viewer" : "operator", label: "" };
    return { role: answer.body.role === "viewer" ? "viewer" : "operator", label: answer.body.label };
}
