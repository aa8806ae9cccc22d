/**
 * `<live-table src="http://127.0.0.1:10000/" table="final_ui">`: a table that follows livejoin, sorted by its headings.
 * Only the rows in sight are in the document. What livejoin sends is put there as text and never as HTML.
 */
import { Client } from "./client.js";
const OVER = 8; // rows beyond either edge, so that scrolling does not show gaps
const LONGEST = 1000; // characters of a cell: it may hold a megabyte, and drawing that takes time
const REST = 4; // times as long as drawing took, so that a large table leaves the page its time
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
td.number { text-align: end; font-variant-numeric: tabular-nums; }
tr.space td { padding: 0; line-height: 0; }
`;
const clients = new Map(); // elements of one livejoin share a socket, and so move together
/** The client of an address, and how to let it go. */
function shared(url) {
    const one = clients.get(url) ?? { client: new Client(url), users: 0 };
    one.users += 1;
    clients.set(url, one);
    const release = () => {
        one.users -= 1;
        if (one.users)
            return;
        clients.delete(url);
        one.client.close();
    };
    return [one.client, release];
}
let sheet;
export class LiveTable extends HTMLElement {
    static observedAttributes = ["src", "table"];
    #table = null;
    #release = () => { };
    #columns = [];
    #order = []; // the rows' identities, as they are shown
    #sort = { column: "", down: false };
    #moved = false; // rows changed since they were put in order
    #drawing = false;
    #drawnAt = 0;
    #cost = 0;
    #height = 24; // of a row; measured once there is one
    #notice;
    #scroll;
    #grid;
    #head;
    #body;
    constructor() {
        super();
        const root = this.attachShadow({ mode: "open" });
        if (!sheet) {
            sheet = new CSSStyleSheet(); // no inline style, which a page's policy may forbid
            sheet.replaceSync(STYLE);
        }
        root.adoptedStyleSheets = [sheet];
        this.#notice = make("p", { id: "notice", role: "status" });
        this.#scroll = make("div", { id: "scroll", role: "region", tabindex: "0" });
        this.#grid = make("table", {});
        this.#head = make("tr", { "aria-rowindex": "1" });
        this.#body = document.createElement("tbody");
        const head = document.createElement("thead");
        head.append(this.#head);
        this.#grid.append(document.createElement("caption"), head, this.#body);
        this.#scroll.append(this.#grid);
        root.append(this.#notice, this.#scroll);
        this.#scroll.addEventListener("scroll", () => this.#draw(), { passive: true });
        new ResizeObserver(() => this.#draw()).observe(this.#scroll);
    }
    connectedCallback() {
        this.#follow();
    }
    disconnectedCallback() {
        // one that is only moved elsewhere is back before this runs
        queueMicrotask(() => !this.isConnected && this.#leave());
    }
    attributeChangedCallback(_name, before, now) {
        if (before === now || !this.isConnected)
            return;
        this.#leave();
        this.#follow();
    }
    #follow() {
        const name = this.getAttribute("table");
        if (this.#table || !name)
            return;
        const [client, release] = shared(new URL(this.getAttribute("src") ?? "", document.baseURI).href);
        this.#release = release;
        this.#table = client.table(name);
        this.#scroll.setAttribute("aria-label", name);
        this.#grid.firstChild.textContent = name;
        this.#table.subscribe(() => {
            this.#moved = true;
            this.#soon();
        }, (status) => this.#say(status));
    }
    #leave() {
        this.#table?.close();
        this.#table = null;
        this.#release();
        this.#release = () => { };
        this.#order = [];
    }
    #say({ state, stale, rows, total }) {
        const words = {
            connecting: "Connecting …",
            reconnecting: "Reconnecting. The last rows that came are shown.",
            refused: `livejoin refuses: ${stale}`,
            closed: "Closed.",
            following: stale ? `Stale: ${stale}` : "",
        };
        const limited = total > rows ? `The newest ${count(rows)} of ${count(total)} rows.` : "";
        const text = [words[state], limited].filter(Boolean).join(" ");
        if (this.#notice.textContent !== text)
            this.#notice.textContent = text;
        const shown = state === "following" && stale ? "stale" : state;
        if (this.dataset.state !== shown)
            this.dataset.state = shown;
    }
    /** Draw with the browser's next picture, and not before the page had some time of its own. */
    #soon() {
        if (this.#drawing)
            return;
        this.#drawing = true;
        const wait = Math.max(0, this.#drawnAt + REST * this.#cost - performance.now());
        setTimeout(() => requestAnimationFrame(() => this.#redraw()), wait);
    }
    #redraw() {
        this.#drawing = false;
        const began = performance.now();
        if (this.#moved && this.#table) {
            this.#moved = false;
            this.#headings(this.#table.columns.filter(({ name }) => !name.startsWith("_")));
            this.#arrange(this.#table);
        }
        this.#draw();
        this.#drawnAt = performance.now();
        this.#cost = this.#drawnAt - began;
    }
    #headings(columns) {
        if (columns.length === this.#columns.length && columns.every(({ name }, i) => name === this.#columns[i]?.name))
            return;
        this.#columns = columns;
        this.#grid.setAttribute("aria-colcount", String(columns.length));
        this.#grid.style.minWidth = `${columns.length * 6}em`;
        this.#head.replaceChildren(...columns.map(({ name }) => {
            const cell = make("th", { scope: "col" });
            const button = make("button", { type: "button" });
            button.textContent = name;
            button.addEventListener("click", () => this.#sortBy(name));
            cell.append(button);
            return cell;
        }));
        this.#body.replaceChildren(space(), space());
        this.#mark();
    }
    /** Up, then down, then as it comes. */
    #sortBy(column) {
        const { column: before, down } = this.#sort;
        this.#sort = before === column ? { column: down ? "" : column, down: !down } : { column, down: false };
        if (!this.#sort.column)
            this.#order = []; // back to the order in which rows came
        this.#mark();
        this.#moved = true;
        this.#soon();
    }
    #mark() {
        for (const [i, { name }] of this.#columns.entries()) {
            const sorted = name === this.#sort.column ? (this.#sort.down ? "descending" : "ascending") : "none";
            this.#head.children[i]?.setAttribute("aria-sort", sorted);
        }
    }
    /** Rows keep their places where they can, so that equals do not jump and sorting finds most of its work done. */
    #arrange(table) {
        const kept = this.#order.filter((id) => table.row(id));
        const known = new Set(kept);
        for (const { _id } of table.rows())
            if (!known.has(_id))
                kept.push(_id);
        const { column, down } = this.#sort;
        if (column) {
            const cells = new Map(kept.map((id) => [id, table.row(id)?.[column] ?? null]));
            kept.sort((a, b) => compare(cells.get(a) ?? null, cells.get(b) ?? null, down));
        }
        this.#order = kept;
        this.#grid.setAttribute("aria-rowcount", String(kept.length + 1));
    }
    /** Put the rows in sight into the document. */
    #draw() {
        if (!this.#table || !this.#columns.length)
            return;
        const { scrollTop, clientHeight } = this.#scroll;
        const sight = Math.ceil(clientHeight / this.#height) + 2 * OVER;
        const last = Math.max(0, this.#order.length - sight);
        const first = Math.min(Math.max(0, Math.floor(scrollTop / this.#height) - OVER), last);
        const ids = this.#order.slice(first, first + sight);
        const [above, below] = [this.#body.firstElementChild, this.#body.lastElementChild];
        const rows = [...this.#body.children].slice(1, -1);
        while (rows.length > ids.length)
            rows.pop()?.remove();
        while (rows.length < ids.length) {
            const row = document.createElement("tr");
            row.append(...this.#columns.map(({ type }) => make("td", type === "string" ? {} : { class: "number" })));
            below?.before(row);
            rows.push(row);
        }
        for (const [i, id] of ids.entries())
            this.#fill(rows[i], first + i, this.#table.row(id));
        tall(above, first * this.#height);
        tall(below, (this.#order.length - first - ids.length) * this.#height);
        this.#measure(rows[0]);
    }
    #fill(row, place, cells) {
        row.setAttribute("aria-rowindex", String(place + 2)); // the headings are the first
        for (const [c, { name, type }] of this.#columns.entries()) {
            const cell = row.children[c];
            const text = shown(cells?.[name] ?? null, type);
            if (cell.textContent === text)
                continue;
            cell.textContent = text;
            cell.title = text; // it may be cut
        }
    }
    /** The height of rows depends on the page's font. */
    #measure(row) {
        const height = row?.getBoundingClientRect().height;
        if (!height || Math.abs(height - this.#height) < 0.01)
            return;
        this.#height = height;
        this.#soon();
    }
}
/** Null is last, whichever way. */
function compare(a, b, down) {
    if (a === b)
        return 0;
    if (a === null || b === null)
        return a === null ? 1 : -1;
    if (a < b)
        return down ? 1 : -1;
    return a > b ? (down ? -1 : 1) : 0;
}
function shown(cell, type) {
    if (cell === null)
        return "";
    if (typeof cell === "string")
        return cell.length > LONGEST ? `${cell.slice(0, LONGEST)}…` : cell;
    if (type !== "timestamp")
        return String(cell);
    const time = new Date(Number(cell));
    return Number.isNaN(time.valueOf()) ? String(cell) : time.toISOString(); // beyond what a date can be
}
const count = (number) => number.toLocaleString("en");
function tall(row, height) {
    row.style.height = `${height}px`;
}
/** A row that stands for those out of sight. */
function space() {
    const row = make("tr", { class: "space", "aria-hidden": "true" });
    row.append(document.createElement("td"));
    return row;
}
function make(tag, attributes) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
        element.setAttribute(name, value);
    return element;
}
