// @ts-check
/**
 * What a page does that brings a grid of its own, and a button that swaps. A proxy serves livejoin in the folder
 * `livejoin/` beside this file.
 */

import { connect } from "./livejoin/static/livejoin.js";

const KEPT = 10;

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

const livejoin = connect(); // where the module came from
const accounts = livejoin.table("accounts_ui");
const status = livejoin.table("orchestrator_status");
const messages = livejoin.table("control_raw");

accounts.subscribe(
  ({ kind, rows, generation }) => {
    const sum = accounts.rows().reduce((total, { balance }) => total + Number(balance ?? 0), 0);
    byId("sum").textContent = `${accounts.rows().length} accounts hold ${sum}`;
    const line = document.createElement("li");
    line.textContent = `${kind} of ${rows.length}, generation ${generation}`;
    byId("changes").prepend(line);
    byId("changes").children[KEPT]?.remove();
  },
  ({ state, stale }) => {
    byId("status").textContent = stale ? `${state}: ${stale}` : state;
  },
);

let join = ""; // what the button asks for
/** @type {{ join: string, partition: number, offset: number } | null} */
let sent = null; // what was asked for last

status.subscribe(() => {
  const [row] = status.rows();
  if (!row) return;
  join = row.joinType === "inner" ? "left" : "inner";
  byId("swap").textContent = `Switch to ${join} join`;
  byId("message").textContent = row.message;
});

/** The table has the newest outcome of each message: a build that was accepted may fail later. */
function showOutcome() {
  const row = messages.rows().find(({ partition, offset }) => partition === sent?.partition && offset === sent?.offset);
  if (sent && row) say(`${sent.join} join: ${row.outcome}`, row.reason);
}

messages.subscribe(showOutcome);

/** @param {string} text @param {any} reason */
function say(text, reason = null) {
  byId("outcome").textContent = reason ? `${text}: ${reason}` : text;
}

byId("swap").addEventListener("click", async () => {
  try {
    const asked = join;
    const { outcome, reason, partition, offset } = await livejoin.control({ joinType: asked });
    say(`${asked} join: ${outcome}`, reason);
    sent = { join: asked, partition, offset };
    showOutcome();
  } catch (error) {
    sent = null;
    say(error.message);
  }
});

const user = await livejoin.whoami();
byId("sign-in").hidden = user !== null;
byId("swap").disabled = user?.role !== "operator";
if (user?.role === "viewer") say("Your role is viewer; a swap requires operator.");
