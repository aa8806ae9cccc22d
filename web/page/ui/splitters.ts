/** Draggable separators between panels, also moved by the arrow keys. Sizes are CSS variables in `fr`. */

const KEY_STEP = 0.05; // share of the pair that an arrow key moves
const MIN_SHARE = 0.12;

type Sizes = Record<string, number>;

/**
 * Each `role="separator"` names in `data-between` the two panels that it resizes: `users accounts`.
 * Returns the function that sets all sizes.
 */
export function enableSplitters(
  root: HTMLElement,
  initial: Sizes,
  onChange: (sizes: Sizes) => void,
): (sizes: Sizes) => void {
  let sizes = { ...initial };
  const separators = [...root.querySelectorAll<HTMLElement>("[role=separator]")];
  const neighbours = (separator: HTMLElement) => (separator.dataset["between"] ?? "").split(" ") as [string, string];
  const share = (separator: HTMLElement) => {
    const [first, second] = neighbours(separator);
    return (sizes[first] ?? 1) / ((sizes[first] ?? 1) + (sizes[second] ?? 1));
  };

  const apply = () => {
    for (const [name, size] of Object.entries(sizes)) root.style.setProperty(`--${name}`, `${size}fr`);
    for (const separator of separators) {
      separator.setAttribute("aria-valuenow", String(Math.round(100 * share(separator))));
    }
  };
  /** Give the first neighbour this share of the pair. */
  const resize = (separator: HTMLElement, newShare: number) => {
    const [first, second] = neighbours(separator);
    const both = (sizes[first] ?? 1) + (sizes[second] ?? 1);
    const clamped = Math.min(1 - MIN_SHARE, Math.max(MIN_SHARE, newShare));
    sizes = { ...sizes, [first]: both * clamped, [second]: both * (1 - clamped) };
    apply();
  };

  for (const separator of separators) {
    const vertical = separator.getAttribute("aria-orientation") === "vertical";
    separator.addEventListener("pointerdown", (event) => {
      separator.setPointerCapture(event.pointerId);
      const before = separator.previousElementSibling?.getBoundingClientRect();
      const after = separator.nextElementSibling?.getBoundingClientRect();
      if (!before || !after) return;
      const [start, end] = vertical ? [before.left, after.right] : [before.top, after.bottom];
      const drag = ({ clientX, clientY }: PointerEvent) =>
        resize(separator, ((vertical ? clientX : clientY) - start) / (end - start));
      const drop = () => {
        separator.removeEventListener("pointermove", drag);
        onChange(sizes);
      };
      separator.addEventListener("pointermove", drag);
      separator.addEventListener("lostpointercapture", drop, { once: true });
    });
    separator.addEventListener("keydown", (event) => {
      const [less, more] = vertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
      if (event.key !== less && event.key !== more) return;
      event.preventDefault();
      resize(separator, share(separator) + (event.key === more ? KEY_STEP : -KEY_STEP));
      onChange(sizes);
    });
  }
  apply();
  return (restored) => {
    sizes = { ...restored };
    apply();
  };
}
