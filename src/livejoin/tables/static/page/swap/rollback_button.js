/** The rollback button, enabled while a generation is on standby. */
import { get } from "../../protocol/http.js";
import { byId, setText } from "../ui/dom.js";
import { describeChoice } from "../ui/format.js";
import { formatDuration } from "../ui/time_format.js";
export class RollbackButton {
    #button = byId("rollback");
    #live;
    #standby;
    #standbyEndsAt = null; // by performance.now()
    #forbidden = "";
    /** `onRollback` gets the live generation, so that the second of two simultaneous rollbacks does not undo the first. */
    constructor(onRollback) {
        this.#button.addEventListener("click", () => onRollback(this.#live?.generation ?? null));
        setInterval(() => this.#show(), 1000);
    }
    /** Disable the button for this reason; "" allows it. */
    forbid(reason) {
        this.#forbidden = reason;
        this.#show();
    }
    setGenerations(live, standby) {
        const changed = standby?.generation !== this.#standby?.generation || live?.generation !== this.#live?.generation;
        this.#live = live;
        this.#standby = standby;
        if (changed)
            this.#standbyEndsAt = null;
        if (changed && standby)
            void this.#fetchStandbyEnd();
        this.#show();
    }
    async #fetchStandbyEnd() {
        const response = await get("api/v1/figures");
        if (response.ok) {
            const { standbySeconds } = response.body;
            this.#standbyEndsAt = standbySeconds === null ? null : performance.now() + 1000 * standbySeconds;
        }
        this.#show();
    }
    #show() {
        const standby = this.#standby;
        this.#button.disabled = !standby || Boolean(this.#forbidden);
        this.#button.title = this.#forbidden;
        setText(this.#button, standby ? `Roll back to generation ${standby.generation}` : "Roll back");
        const left = this.#standbyEndsAt === null ? null : Math.max(0, this.#standbyEndsAt - performance.now());
        const time = left === null ? "" : ` for another ${formatDuration(left)}`;
        const none = "No generation is on standby: there was no swap yet, or its standby time is over.";
        setText(byId("rollback-to"), standby ? `${describeChoice(standby)}, on standby${time}` : none);
    }
}
