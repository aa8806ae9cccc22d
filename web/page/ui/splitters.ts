/** Draggable separators between panels, also moved by the arrow keys. Sizes are CSS variables in `fr`. */

const KEY_STEP = 0.05; // share of the pair that an arrow key moves
const MIN_SHARE = 0.12;

export type Sizes = Record<string, number>;

/** Each `role="separator"` names in `data-between` the two panels that it resizes: `final sources`. */
export class Splitters {
  #root: HTMLElement;
  #onChange: (sizes: Sizes) => void;
  #defaults: Sizes = {};
  #chosen: Sizes;
  #separators = new Set<HTMLElement>();

  /** `initial` are the sizes that the user has chosen; `onChange` gets them when the user changes one. */
  constructor(root: HTMLElement, initial: Sizes, onChange: (sizes: Sizes) => void) {
    this.#root = root;
    this.#chosen = initial;
    this.#onChange = onChange;
    for (const separator of root.querySelectorAll<HTMLElement>("[role=separator]")) this.#add(separator);
    this.#apply();
  }

  /** Separators were added or removed; `defaults` are the sizes of panels whose size nobody has chosen. */
  update(defaults: Sizes): void {
    this.#defaults = defaults;
    const present = [...this.#root.querySelectorAll<HTMLElement>("[role=separator]")];
    for (const separator of present) if (!this.#separators.has(separator)) this.#add(separator);
    this.#separators = new Set(present);
    this.#apply();
  }

  show(sizes: Sizes): void {
    this.#chosen = { ...sizes };
    this.#apply();
  }

  #size(name: string): number {
    return this.#chosen[name] ?? this.#defaults[name] ?? 1;
  }

  #share(separator: HTMLElement): number {
    const [first, second] = neighbours(separator).map((name) => this.#size(name)) as [number, number];
    return first / (first + second);
  }

  #apply(): void {
    for (const [name, size] of Object.entries({ ...this.#defaults, ...this.#chosen })) {
      this.#root.style.setProperty(`--size-${name}`, `${size}fr`);
    }
    for (const separator of this.#separators) {
      separator.setAttribute("aria-valuenow", String(Math.round(100 * this.#share(separator))));
    }
  }

  /** Give the first neighbour this share of the pair. */
  #resize(separator: HTMLElement, newShare: number): void {
    const [first, second] = neighbours(separator);
    const both = this.#size(first) + this.#size(second);
    const clamped = Math.min(1 - MIN_SHARE, Math.max(MIN_SHARE, newShare));
    this.#chosen = { ...this.#chosen, [first]: both * clamped, [second]: both * (1 - clamped) };
    this.#apply();
  }

  #add(separator: HTMLElement): void {
    this.#separators.add(separator);
    const vertical = separator.getAttribute("aria-orientation") === "vertical";
    separator.addEventListener("pointerdown", (event) => {
      separator.setPointerCapture(event.pointerId);
      const before = separator.previousElementSibling?.getBoundingClientRect();
      const after = separator.nextElementSibling?.getBoundingClientRect();
      if (!before || !after) return;
      const [start, end] = vertical ? [before.left, after.right] : [before.top, after.bottom];
      const drag = ({ clientX, clientY }: PointerEvent) =>
        this.#resize(separator, ((vertical ? clientX : clientY) - start) / (end - start));
      const drop = () => {
        separator.removeEventListener("pointermove", drag);
        this.#onChange(this.#chosen);
      };
      separator.addEventListener("pointermove", drag);
      separator.addEventListener("lostpointercapture", drop, { once: true });
    });
    separator.addEventListener("keydown", (event) => {
      const [less, more] = vertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
      if (event.key !== less && event.key !== more) return;
      event.preventDefault();
      this.#resize(separator, this.#share(separator) + (event.key === more ? KEY_STEP : -KEY_STEP));
      this.#onChange(this.#chosen);
    });
  }
}

const neighbours = (separator: HTMLElement) => (separator.dataset["between"] ?? "").split(" ") as [string, string];
