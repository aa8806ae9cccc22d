/** `<live-table table="final_ui">`: a table that is kept up to date. */

import type { Status, Table } from "../../src/livejoin/tables/static/livejoin.js";
import { MODULE_HOME } from "./address.js";
import { Client } from "./client.js";
import { RowGrid } from "./row_grid.js";

const STYLE = `
:host { display: flex; flex-direction: column; height: 20rem; font: 14px/1.4 system-ui, sans-serif; }
:host([hidden]) { display: none; }
#notice { margin: 0; padding: 0.25em 0.5em; color: light-dark(#7a4b00, #ffc46b); background: light-dark(#fff6e5, #33260f); }
#notice:empty { display: none; }
#scroll { flex: 1; min-height: 0; overflow: auto; overflow-anchor: none; border: 1px solid light-dark(#ccc, #555); }
#scroll:focus-visible { outline: 2px solid Highlight; outline-offset: -2px; }
table { border-collapse: separate; border-spacing: 0; table-layout: fixed; width: 100%; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th { position: sticky; top: 0; padding: 0; width: 9em; background: Canvas; background: light-dark(#f3f3f3, #2b2b2b); text-align: start; }
th button { all: unset; box-sizing: border-box; width: 100%; padding: 0.3em 0.5em; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid Highlight; outline-offset: -2px; }
th[aria-sort=ascending] button::after { content: " ▲" / ""; }
th[aria-sort=descending] button::after { content: " ▼" / ""; }
td { padding: 0 0.5em; line-height: 1.75; white-space: pre; overflow: hidden; text-overflow: ellipsis; }
.number { text-align: end; }
td.number { font-variant-numeric: tabular-nums; }
td.null::after { content: "–"; color: light-dark(#52606d, #a3b1bf); }
tr.spacer td { padding: 0; line-height: 0; }
`;

let styleSheet: CSSStyleSheet | undefined;

/** Clients by address: elements of one livejoin share a socket, and so cut over together. */
const clients: Map<string, { client: Client; users: number }> = new Map();

/** The shared client of an address, and the function that releases it. */
function acquireClient(url: string): [Client, () => void] {
  const shared = clients.get(url) ?? { client: new Client(url), users: 0 };
  shared.users += 1;
  clients.set(url, shared);
  const release = () => {
    shared.users -= 1;
    if (shared.users) return;
    clients.delete(url);
    shared.client.close();
  };
  return [shared.client, release];
}

export class LiveTableElement extends HTMLElement {
  static observedAttributes = ["src", "table"];

  #table: Table | null = null;
  #releaseClient: () => void = () => {};
  #notice = document.createElement("p");
  #grid = new RowGrid();

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    if (!styleSheet) {
      styleSheet = new CSSStyleSheet(); // a page's Content-Security-Policy may forbid inline styles
      styleSheet.replaceSync(STYLE);
    }
    root.adoptedStyleSheets = [styleSheet];
    this.#notice.id = "notice";
    this.#notice.setAttribute("role", "status");
    root.append(this.#notice, this.#grid.element);
  }

  connectedCallback() {
    this.#subscribe();
  }

  disconnectedCallback() {
    // an element that is only moved is connected again before this runs
    queueMicrotask(() => !this.isConnected && this.#unsubscribe());
  }

  attributeChangedCallback(_name: string, before: string | null, now: string | null) {
    if (before === now || !this.isConnected) return;
    this.#unsubscribe();
    this.#subscribe();
  }

  #subscribe() {
    const name = this.getAttribute("table");
    if (this.#table || !name) return;
    const [client, release] = acquireClient(new URL(this.getAttribute("src") || MODULE_HOME, document.baseURI).href);
    this.#releaseClient = release;
    this.#table = client.table(name);
    this.#grid.show(this.#table);
    this.#table.subscribe(
      () => this.#grid.rowsChanged(),
      (status) => this.#showStatus(status),
    );
  }

  #unsubscribe() {
    this.#table?.close();
    this.#table = null;
    this.#releaseClient();
    this.#releaseClient = () => {};
    this.#grid.clear();
  }

  #showStatus({ state, stale, rows, total }: Status) {
    const texts = {
      connecting: "Connecting …",
      reconnecting: rows ? "Reconnecting. These are the last rows received." : "Not connected. Trying again …",
      refused: `Refused: ${stale}`,
      closed: "Closed.",
      following: stale ? `Stale: ${stale}` : "",
    };
    const limited = total > rows ? `The newest ${formatCount(rows)} of ${formatCount(total)} rows.` : "";
    const text = [texts[state], limited].filter(Boolean).join(" ");
    if (this.#notice.textContent !== text) this.#notice.textContent = text;
    const shown = state === "following" && stale ? "stale" : state;
    if (this.dataset["state"] !== shown) this.dataset["state"] = shown;
  }
}

const formatCount = (count: number) => count.toLocaleString("en");
