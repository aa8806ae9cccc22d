/** Asking livejoin over HTTP. An answer is never an exception: it says what is wrong instead. */

const ANSWER_MS = 30_000; // livejoin answers within about 20
const HEADERS = { "content-type": "application/json", "livejoin-client": "page" };

export type Asked<T> =
  { ok: true; status: number; body: T; why: "" } | { ok: false; status: number; body: T | null; why: string };

export const ask = <T>(path: string): Promise<Asked<T>> => send<T>(path, {});

/** `message` is sent as it is, so that what a person wrote is what arrives. */
export const post = <T>(path: string, message: string): Promise<Asked<T>> =>
  send<T>(path, { method: "POST", headers: HEADERS, body: message });

async function send<T>(path: string, request: RequestInit): Promise<Asked<T>> {
  let response: Response;
  try {
    response = await fetch(path, { ...request, signal: AbortSignal.timeout(ANSWER_MS) });
  } catch {
    return { ok: false, status: 0, body: null, why: "No answer from livejoin." };
  }
  const body: unknown = await response.json().catch(() => null);
  if (response.ok) return { ok: true, status: response.status, body: body as T, why: "" };
  const { title = "refused", detail = `${response.status} ${response.statusText}` } = (body ?? {}) as Record<
    string,
    string
  >;
  const why = `${title.charAt(0).toUpperCase()}${title.slice(1)}: ${detail}`;
  return { ok: false, status: response.status, body: body as T | null, why };
}
