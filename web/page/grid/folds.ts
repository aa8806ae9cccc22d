/** Folding the areas of the workspace: of a folded one only the heading is shown. */

import { icon, iconButton } from "../ui/icons.js";

export class Folds {
  #root: HTMLElement;
  #folded = new Set<string>();
  #buttons = new Map<string, HTMLButtonElement>();
  #onChange: (folded: string[]) => void;
  #onShow: (folded: string[]) => void;

  /** `root` holds the sections. The folded areas: `onShow` gets them to lay out, `onChange` when the user changes them. */
  constructor(root: HTMLElement, onShow: (folded: string[]) => void, onChange: (folded: string[]) => void) {
    this.#root = root;
    this.#onShow = onShow;
    this.#onChange = onChange;
    this.update();
  }

  /** Sections were added or removed. */
  update(): void {
    const sections = [...this.#root.querySelectorAll<HTMLElement>("section[data-area]")];
    for (const [area, button] of this.#buttons) if (!button.isConnected) this.#buttons.delete(area);
    for (const section of sections) if (!this.#buttons.has(section.dataset["area"]!)) this.#addButton(section);
    this.show([...this.#folded]);
  }

  #addButton(section: HTMLElement): void {
    const area = section.dataset["area"]!;
    const name = section.getAttribute("aria-label") ?? area;
    const created = iconButton("fold", `Fold ${name}`, () => this.set(area, !this.#folded.has(area)));
    section.querySelector("header")?.prepend(created);
    this.#buttons.set(area, created);
  }

  set(area: string, folded: boolean): void {
    if (this.#folded.has(area) === folded) return;
    const areas = [...this.#buttons.keys()].filter((each) => (each === area ? folded : this.#folded.has(each)));
    this.show(areas);
    this.#onChange(areas);
  }

  show(areas: string[]): void {
    this.#folded = new Set(areas);
    this.#root.dataset["folded"] = areas.join(" ");
    for (const [area, button] of this.#buttons) {
      const folded = this.#folded.has(area);
      button.replaceChildren(icon(folded ? "unfold" : "fold"));
      button.setAttribute("aria-expanded", String(!folded));
      button.closest("section")!.toggleAttribute("data-is-folded", folded);
    }
    this.#onShow(areas);
  }
}
