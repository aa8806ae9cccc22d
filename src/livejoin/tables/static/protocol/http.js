/** HTTP requests to livejoin. A failed request is a result with a reason, never an exception. */
const TIMEOUT_MS = 30_000; // livejoin answers within about 20 s
const HEADERS = { "content-type": "application/json", "livejoin-client": "page" };
export const get = (path, signal) => send(path, signal ? { signal } : {});
/** `json` is sent unchanged, so that the server gets the text that the user wrote. */
export const post = (path, json) => send(path, { method: "POST", headers: HEADERS, body: json });
/** Without a body in either direction. */
export const remove = (path) => send(path, { method: "DELETE", headers: HEADERS });
/** Get a ticket that opens one socket. The refusal's own text is in `body.detail`. */
export const fetchTicket = (url, token) => send(url, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: "{}",
});
export async function send(path, request) {
    let response;
    try {
        const signals = [AbortSignal.timeout(TIMEOUT_MS), request.signal].filter((signal) => signal != null);
        response = await fetch(path, { ...request, signal: AbortSignal.any(signals) });
    }
    catch {
        return { ok: false, status: 0, body: null, error: "No answer from livejoin." };
    }
    const body = await response.json().catch(() => null);
    if (response.ok)
        return { ok: true, status: response.status, body: body, error: "" };
    const problem = (body ?? {});
    const { title = "refused", detail = `${response.status} ${response.statusText}` } = problem;
    const error = `${title.charAt(0).toUpperCase()}${title.slice(1)}: ${detail}`;
    return { ok: false, status: response.status, body: body, error };
}
