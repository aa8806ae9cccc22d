/**
 * The connection to one livejoin: opens the socket, reconnects with back-off, gives up silent sockets and verifies the
 * tables against heartbeats. Used by the page, the published module and `<live-table>`. Time-outs are those of the
 * Python client (`client/session.py`, `client/shared.py`).
 */
import { UnsupportedFormat, readFrame } from "./frame.js";
import { fetchTicket } from "./http.js";
import { Session } from "./session.js";
import { Verifier } from "./verification.js";
const SUBPROTOCOL = "livejoin.v1";
const OPEN_TIMEOUT_MS = 5000;
const FIRST_FRAME_TIMEOUT_MS = 30_000; // a snapshot of a large table over a slow line
const SILENCE_TIMEOUT_MS = 5000; // heartbeats come every second
const MIN_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 5000;
/** livejoin's absolute address, with the slash at the end: a proxy may serve it below a folder. */
export function addressOf(url) {
    const address = new URL(url, globalThis.document?.baseURI);
    if (!address.pathname.endsWith("/"))
        address.pathname += "/";
    return address;
}
export class Connection {
    state = "connecting";
    reason = "not connected yet"; // why the state is not `following`
    serverStale = ""; // why the server's rows may be old
    heartbeatAt = null; // by performance.now(): the wall clock can be set
    #liveUrl;
    #ticketUrl;
    #listener;
    #options;
    #session;
    #verifier = new Verifier((resubscribe) => this.#onMismatch(resubscribe));
    #socket = null;
    #fetchingTicket = false;
    #backoffMs = MIN_BACKOFF_MS;
    #retryTimer;
    #timeout;
    /** `url` is livejoin's address. */
    constructor(url, listener, options = {}) {
        const base = addressOf(url);
        const live = new URL("api/v1/live", base);
        live.protocol = live.protocol.replace("http", "ws");
        this.#liveUrl = live.href;
        this.#ticketUrl = new URL("api/v1/ticket", base).href;
        this.#listener = listener;
        this.#options = options;
        this.#session = new Session(options.wait);
    }
    get session() {
        return this.#session;
    }
    /** Number of heartbeats that did not match. */
    get mismatches() {
        return this.#verifier.mismatches;
    }
    /** Follow these tables. Connects if there is no connection yet; without tables, disconnects. */
    subscribe(tables) {
        if (this.state === "closed")
            return;
        const changed = this.#session.want(tables);
        if (!tables.length)
            this.#disconnect();
        else if (this.#socket?.readyState === WebSocket.OPEN) {
            if (changed)
                this.#socket.send(this.#session.resubscribe());
        }
        else if (!this.#socket && this.#retryTimer === undefined && !this.#fetchingTicket)
            this.#open();
    }
    /** The rows of a table were discarded. */
    forget(table) {
        this.#session.forget(table);
        this.#verifier.forget(table);
    }
    /** A frame has been applied. For a heartbeat, `rows` are the row counts of the tables at this point. */
    applied({ header, parts, verifiable }, rows) {
        for (const { table, kind, payload } of parts)
            this.#verifier.applied(table, kind, payload);
        if (header.type !== "heartbeat")
            return;
        const digests = header.tables ?? {};
        this.#verifier.heartbeat(Object.fromEntries(verifiable.map((table) => [table, digests[table]])), rows);
    }
    close() {
        if (this.state === "closed")
            return;
        this.#disconnect();
        this.#setState("closed", "closed");
    }
    #open() {
        this.#retryTimer = undefined;
        if (this.state === "refused")
            this.state = "connecting"; // other tables are wanted now
        if (this.#options.token)
            void this.#openWithTicket(this.#options.token);
        else
            this.#connect(this.#liveUrl);
    }
    /** A browser cannot send headers with a socket, and a token must not be part of an address. */
    async #openWithTicket(token) {
        this.#fetchingTicket = true;
        const response = await fetchTicket(this.#ticketUrl, token);
        this.#fetchingTicket = false;
        if (this.state === "closed" || !this.#session.wanted.length)
            return;
        const ticket = response.ok ? response.body?.ticket : undefined; // a proxy may answer something else
        if (ticket)
            return this.#connect(`${this.#liveUrl}?ticket=${encodeURIComponent(ticket)}`);
        const reason = response.body?.detail ?? (response.error || "livejoin did not return a ticket");
        if (response.status === 401 || response.status === 403)
            this.#refuse(reason);
        else
            this.#retryLater(reason);
    }
    #connect(url) {
        const socket = new WebSocket(url, SUBPROTOCOL);
        this.#socket = socket;
        socket.binaryType = "arraybuffer";
        this.#expectWithin(OPEN_TIMEOUT_MS, socket, "timed out while connecting");
        socket.onopen = () => {
            socket.send(this.#session.hello());
            this.#expectFrame(socket);
        };
        socket.onmessage = ({ data }) => this.#receive(socket, data);
        socket.onclose = () => this.#lost(socket, "not connected");
    }
    #expectFrame(socket) {
        const timeoutMs = this.#session.awaitingFirst ? FIRST_FRAME_TIMEOUT_MS : SILENCE_TIMEOUT_MS;
        this.#expectWithin(timeoutMs, socket, `no message for ${timeoutMs / 1000} s`);
    }
    #expectWithin(timeoutMs, socket, reason) {
        clearTimeout(this.#timeout);
        this.#timeout = setTimeout(() => this.#lost(socket, reason), timeoutMs);
    }
    #receive(socket, data) {
        if (socket !== this.#socket)
            return;
        try {
            const frame = readFrame(data);
            const { type, message = "", stale } = frame.header;
            if (type === "error")
                return this.#onServerError(socket, message);
            if (type === "heartbeat") {
                this.heartbeatAt = performance.now();
                this.serverStale = stale ?? "";
                this.#backoffMs = MIN_BACKOFF_MS;
            }
            const received = this.#session.receive(frame);
            if (!received)
                return this.#expectFrame(socket);
            if (type !== "heartbeat" || this.#session.settled)
                this.state = "following";
            this.#listener.frame(received);
            if (socket !== this.#socket)
                return; // closed by the listener
            this.#expectFrame(socket);
            this.#listener.statusChanged();
        }
        catch (error) {
            if (error instanceof UnsupportedFormat)
                return this.#refuse(error.message);
            console.error(error);
            this.#session.invalidate(); // part of the frame may have been applied
            this.#lost(socket, `a frame cannot be read: ${error}`);
        }
    }
    #onServerError(socket, message) {
        this.#listener.serverError?.(message);
        if (this.#options.retryErrors)
            this.#lost(socket, message);
        else
            this.#refuse(message);
    }
    #onMismatch(resubscribe) {
        if (resubscribe && this.#socket?.readyState === WebSocket.OPEN && this.#session.settled) {
            this.#socket.send(this.#session.resubscribe());
        }
        else if (resubscribe) {
            this.#session.invalidate();
        }
        this.#listener.mismatch?.(resubscribe);
    }
    #lost(socket, reason) {
        if (socket !== this.#socket)
            return;
        this.#disconnect();
        this.#retryLater(reason);
    }
    /** Reconnecting would not help. */
    #refuse(reason) {
        this.#disconnect();
        this.#setState("refused", reason);
    }
    #retryLater(reason) {
        const waitMs = this.#backoffMs * (0.5 + Math.random()); // spread, so that not all clients reconnect at once
        this.#backoffMs = Math.min(this.#backoffMs * 2, MAX_BACKOFF_MS);
        this.#retryTimer = setTimeout(() => this.#open(), waitMs);
        this.#setState("reconnecting", reason);
    }
    #disconnect() {
        const socket = this.#socket;
        this.#socket = null;
        clearTimeout(this.#timeout);
        clearTimeout(this.#retryTimer);
        this.#retryTimer = undefined;
        socket?.close();
    }
    #setState(state, reason) {
        this.state = state;
        this.reason = reason;
        this.#listener.statusChanged();
    }
}
