/** Asking livejoin over HTTP. An answer is never an exception: it says what is wrong instead. */
const ANSWER_MS = 30_000; // livejoin answers within about 20
const HEADERS = { "content-type": "application/json", "livejoin-client": "page" };
export const ask = (path) => send(path, {});
/** `message` is sent as it is, so that what a person wrote is what arrives. */
export const post = (path, message) => send(path, { method: "POST", headers: HEADERS, body: message });
async function send(path, request) {
    let response;
    try {
        response = await fetch(path, { ...request, signal: AbortSignal.timeout(ANSWER_MS) });
    }
    catch {
        return { ok: false, status: 0, body: null, why: "No answer from livejoin." };
    }
    const body = await response.json().catch(() => null);
    if (response.ok)
        return { ok: true, status: response.status, body: body, why: "" };
    const { title = "refused", detail = `${response.status} ${response.statusText}` } = (body ?? {});
    const why = `${title.charAt(0).toUpperCase()}${title.slice(1)}: ${detail}`;
    return { ok: false, status: response.status, body: body, why };
}
