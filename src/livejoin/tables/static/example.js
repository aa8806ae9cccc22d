/** The example at /example: two elements and a button that swaps the join. It uses the published module only. */
import { connect } from "./livejoin.js";
const element = (id) => document.getElementById(id);
const button = element("swap");
const livejoin = connect(); // where the module came from
const status = livejoin.table("orchestrator_status");
const messages = livejoin.table("control_raw");
let join = ""; // what the button asks for
let sent = null; // what was asked for last
status.subscribe(showStatus, showStatus);
messages.subscribe(showOutcome);
function showStatus() {
    const { state, stale } = status.status;
    const row = status.rows()[0];
    if (row) {
        join = row["joinType"] === "inner" ? "left" : "inner";
        button.textContent = `Switch to ${join} join`;
    }
    element("status").textContent = state === "following" && !stale ? String(row?.["message"] ?? "") : stale || state;
}
/** The table has the newest outcome of each message: a build that was accepted may fail later. */
function showOutcome() {
    if (!sent)
        return;
    const { join, partition, offset } = sent;
    const row = messages.rows().find((row) => row["partition"] === partition && row["offset"] === offset);
    if (row)
        say(`${join} join: ${row["outcome"]}`, row["reason"]);
}
button.addEventListener("click", async () => {
    button.disabled = true;
    try {
        const asked = join;
        const { outcome, reason, partition, offset } = await livejoin.control({ joinType: asked });
        say(`${asked} join: ${outcome}`, reason);
        sent = { join: asked, partition, offset };
        showOutcome();
    }
    catch (error) {
        sent = null;
        say(error.message);
    }
    finally {
        button.disabled = false;
    }
});
function say(text, reason = null) {
    element("outcome").textContent = reason ? `${text}: ${reason}` : text;
}
try {
    const user = await livejoin.whoami();
    element("sign-in").hidden = user !== null;
    button.disabled = user?.role !== "operator";
    if (user?.role === "viewer")
        say("Your role is viewer; a swap requires operator.");
}
catch (error) {
    say(error.message);
}
