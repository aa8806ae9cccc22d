/** livejoin for any web page: `connect(url).table(name)`, and the element `<live-table>`. */
import { Client } from "./module/client.js";
/** The address is livejoin's; this page's, if there is none. A page of livejoin's own needs no token: it has signed in. */
export const connect = (url = "", { token } = {}) => new Client(url, token);
if (globalThis.customElements && !customElements.get("live-table")) {
    const { LiveTable } = await import("./module/live_table_element.js"); // it extends an element, which there is in pages only
    customElements.define("live-table", LiveTable);
}
