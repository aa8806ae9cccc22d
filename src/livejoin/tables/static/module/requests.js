/** Requests of the published client. A failed request is an Error that says why. */
import { send } from "../protocol/http.js";
export class Requests {
    #address;
    #headers;
    /** Without a token the session's cookie tells livejoin who is asking. */
    constructor(address, token) {
        this.#address = address;
        this.#headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    }
    async control(message) {
        const request = { method: "POST", body: JSON.stringify(message) };
        return bodyOf(await this.#send("api/v1/control", request));
    }
    async whoami() {
        const response = await this.#send("api/v1/whoami", {});
        return response.status === 401 ? null : bodyOf(response);
    }
    #send(path, request) {
        return send(new URL(path, this.#address).href, { ...request, headers: this.#headers });
    }
}
function bodyOf({ ok, body, error }) {
    if (!ok || body === null)
        throw new Error(error || "The answer is not livejoin's."); // a proxy may answer something else
    return body;
}
