/** What is live and what is being built, above the form: always four lines, so that nothing below moves. */

import type { Generation, StatusRow } from "../../protocol/api_types.js";
import { byId, element, setText, setTextAndTitle } from "../ui/dom.js";
import { describeChoice } from "../ui/format.js";
import { formatClock } from "../ui/time_format.js";

export class CurrentChoice {
  #live: Generation | undefined;
  #building: Generation | undefined;
  #progress = 0;
  #staleSince = 0; // wall clock; 0 if what is shown is current
  #lines = { live: newLine("live"), building: newLine("building") };

  constructor() {
    for (const { label, value } of Object.values(this.#lines)) byId("current").append(label, value);
    this.#show();
  }

  setGenerations(live: Generation | undefined, building: Generation | undefined): void {
    this.#live = live;
    this.#building = building;
    this.#show();
  }

  setStatus({ progress }: StatusRow): void {
    this.#progress = Number(progress);
    this.#show();
  }

  setStale(since: number): void {
    this.#staleSince = since;
    this.#show();
  }

  #show(): void {
    const { live, building } = this.#lines;
    const asOf = this.#staleSince ? `\nat ${formatClock(this.#staleSince)}` : "";
    setText(live.label, `Live${asOf}`);
    setText(building.label, `Being built${asOf}`);
    setTextAndTitle(live.value, describe(this.#live));
    const progress = this.#building ? `, ${this.#progress} %` : "";
    setTextAndTitle(building.value, `${describe(this.#building)}${progress}`);
    setText(byId("blank-note"), `Blank fields keep the ${this.#building ? "build's" : "live ones"}`);
  }
}

function newLine(name: string): { label: HTMLElement; value: HTMLElement } {
  return { label: element("dt"), value: element("dd", { id: `current-${name}` }) };
}

const describe = (row: Generation | undefined) =>
  row ? `${describeChoice(row)}\ngeneration ${row.generation}` : "nothing";
