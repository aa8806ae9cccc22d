// @ts-check
/** livejoin for any web page: `connect(url).table(name)`, and the element `<live-table>`. */

import { Client } from "./client.js";

/**
 * @param {string | URL} [url] of livejoin; of this page, if there is none
 * @param {{token?: string}} [options] the token, for a page of another site: one of livejoin's own has signed in
 * @returns {Client}
 */
export const connect = (url = "", { token } = {}) => new Client(url, token);

if (globalThis.customElements && !customElements.get("live-table")) {
  const { LiveTable } = await import("./livetable.js"); // it extends an element, which there is in pages only
  customElements.define("live-table", LiveTable);
}
