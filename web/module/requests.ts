/** Requests of the published client. A failed request is an Error that says why. */

import type { ControlMessage, Outcome, User } from "../../src/livejoin/tables/static/livejoin.js";
import { send } from "../protocol/http.js";
import type { HttpResult } from "../protocol/http.js";

export class Requests {
  #address: URL;
  #headers: Record<string, string>;

  /** Without a token the session's cookie tells livejoin who is asking. */
  constructor(address: URL, token?: string) {
    this.#address = address;
    this.#headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  }

  async control(message: ControlMessage): Promise<Outcome> {
    const request = { method: "POST", body: JSON.stringify(message) };
    return bodyOf(await this.#send<Outcome>("api/v1/control", request));
  }

  async whoami(): Promise<User | null> {
    const response = await this.#send<User>("api/v1/whoami", {});
    return response.status === 401 ? null : bodyOf(response);
  }

  #send<T>(path: string, request: RequestInit): Promise<HttpResult<T>> {
    return send<T>(new URL(path, this.#address).href, { ...request, headers: this.#headers });
  }
}

function bodyOf<T>({ ok, body, error }: HttpResult<T>): T {
  if (!ok || body === null) throw new Error(error || "The answer is not livejoin's."); // a proxy may answer something else
  return body;
}
