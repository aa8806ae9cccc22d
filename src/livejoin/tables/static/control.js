// @ts-check
/** The form that asks for a change, a preview or the way back, and what is answered. */

import { answered, choice, kindOf, previewed } from "./words.js";

/** @typedef {import("./words.js").Answer} Answer */
/** @typedef {import("./words.js").Generation} Generation */

const ANSWER_MS = 30_000; // livejoin answers within about 20
const HEADERS = { "content-type": "application/json", "livejoin-client": "page" };

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

export class Control {
  #panel = byId("control");
  #form = /** @type {HTMLFormElement} */ (byId("ask"));
  #opener = byId("change");
  #rollback = byId("rollback");
  #busy = false;
  /** @type {number | null} */ #live = null;
  /** @type {Answer | null} */ #followed = null;

  constructor() {
    this.#opener.addEventListener("click", () => this.#open(this.#panel.hidden));
    byId("close").addEventListener("click", () => this.#open(false));
    this.#panel.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") this.#open(false);
    });
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { value } = /** @type {HTMLButtonElement} */ (event.submitter ?? this.#form.elements.namedItem("action"));
      if (value === "control") this.#apply();
      else this.#preview();
    });
    // two who go back at the same time do not undo each other
    this.#rollback.addEventListener("click", () => this.#send("rollback", { expectedGeneration: this.#live }));
  }

  /** The offset of the message whose outcome is still open, if any. */
  get followed() {
    return this.#followed?.offset ?? null;
  }

  /** @param {Answer | undefined} row of control_raw: what became of the message since */
  became(row) {
    if (row === undefined || this.#followed === null || row.outcome === this.#followed.outcome) return;
    this.#answer({ ...this.#followed, outcome: row.outcome, reason: row.reason });
  }

  /** @param {Generation[]} generations that exist: at most one each is live, standing by, being built */
  generations(generations) {
    /** @param {string} state */
    const find = (state) => generations.find((one) => one.state === state);
    const live = find("live");
    const standby = find("standby");
    const kept = find("building") ?? live; // what a field that is left blank stands for
    this.#live = live?.generation ?? null;
    this.#rollback.disabled = !standby;
    this.#rollback.textContent = standby ? `Roll back to generation ${standby.generation}` : "Roll back";
    byId("rollback-to").textContent = standby ? `${choice(standby)}, standing by` : "No generation stands by.";
    for (const name of /** @type {const} */ (["usersTopic", "accountsTopic"])) {
      this.#field(name).placeholder = kept?.[name] ?? "";
    }
    this.#field("joinType").options[0].textContent = kept ? `keep ${kept.joinType}` : "keep";
  }

  /** @param {boolean} yes */
  #open(yes) {
    this.#panel.hidden = !yes;
    this.#opener.setAttribute("aria-expanded", String(yes));
    (yes ? this.#field("usersTopic") : this.#opener).focus();
  }

  /** @param {string} name @returns {any} */
  #field(name) {
    return this.#form.elements.namedItem(name);
  }

  /** What is filled in, or null after saying that nothing is. */
  #filled() {
    const names = ["usersTopic", "accountsTopic", "joinType"];
    const given = names.map((name) => [name, this.#field(name).value.trim()]).filter(([, value]) => value);
    if (given.length) return Object.fromEntries(given);
    this.#say("bad", "Nothing is filled in: name a topic or choose a join.");
    return null;
  }

  async #apply() {
    const message = this.#filled();
    if (message && (await this.#send("control", message))) this.#form.reset();
  }

  async #preview() {
    const message = this.#filled();
    const preview = message && (await this.#post("preview", message));
    if (!preview) return;
    const rejected = preview.outcome === "rejected";
    if (rejected) this.#say("bad", "Apply would do nothing:");
    else this.#say("", "Nothing is changed yet. Apply would do this:");
    const list = document.createElement("dl");
    for (const [what, how] of previewed(preview)) {
      list.append(textIn("dt", what), textIn("dd", how));
    }
    byId("answer").append(list);
  }

  /** @param {string} path @param {object} message @returns {Promise<boolean>} whether it was taken */
  async #send(path, message) {
    const answer = await this.#post(path, message);
    if (answer) this.#answer(answer);
    return answer !== null;
  }

  /** @param {string} path @param {object} message @returns {Promise<any>} the answer, or null after saying why not */
  async #post(path, message) {
    if (this.#busy) return null;
    this.#busy = true;
    this.#followed = null;
    this.#say("busy", "Asking …");
    try {
      const request = { method: "POST", headers: HEADERS, body: JSON.stringify(message) };
      const response = await fetch(`api/v1/${path}`, { ...request, signal: AbortSignal.timeout(ANSWER_MS) });
      const body = await response.json().catch(() => ({}));
      if (response.ok) return body;
      const { title = "refused", detail = `${response.status} ${response.statusText}` } = body;
      this.#say("bad", `${sentence(title)}: ${detail}`);
    } catch {
      this.#say("bad", "No answer from livejoin. Once it is back, control_raw shows whether the message arrived.");
    } finally {
      this.#busy = false;
    }
    return null;
  }

  /** @param {Answer} answer */
  #answer(answer) {
    const kind = kindOf(answer.outcome);
    this.#followed = kind === "busy" ? answer : null;
    this.#say(kind, answered(answer));
  }

  /** @param {string} kind @param {string} text */
  #say(kind, text) {
    const answer = byId("answer");
    answer.dataset.kind = kind;
    answer.replaceChildren(textIn("p", text));
  }
}

/** @param {string} text */
const sentence = (text) => text[0].toUpperCase() + text.slice(1);

/** @param {string} tag @param {string} text */
function textIn(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
