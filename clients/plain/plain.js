// @ts-check
/** What a page does that brings a grid of its own: it takes rows and changes, and shows them as it likes. */

import { connect } from "/static/livejoin.js";

const KEPT = 10;

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

const accounts = connect("/").table("accounts_ui");

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
