/** The published module, `/static/livejoin.js`: `connect(url).table(name)` and the element `<live-table>`. */

import type * as published from "../src/livejoin/tables/static/livejoin.js";
import { MODULE_HOME } from "./module/address.js";
import { Client } from "./module/client.js";

export const connect: typeof published.connect = (url = MODULE_HOME, { token } = {}) => new Client(url, token);

if (globalThis.customElements && !customElements.get("live-table")) {
  // imported here because it extends HTMLElement, which Node.js does not have
  const { LiveTableElement } = await import("./module/live_table_element.js");
  customElements.define("live-table", LiveTableElement);
}
