/** Lines between panels that can be moved, by pointer and by arrow keys. The shares are kept as CSS variables. */

const STEP = 0.05; // of both neighbours, by a key
const LEAST = 0.12;

type Shares = Record<string, number>;

/**
 * Each `role="separator"` names in `data-between` the two whose shares it moves: `users accounts`.
 * `orientation` vertical is a line that stands, so that it moves left and right.
 */
export function splitters(
  root: HTMLElement,
  start: Shares,
  changed: (shares: Shares) => void,
): (shares: Shares) => void {
  let shares = { ...start };
  const lines = [...root.querySelectorAll<HTMLElement>("[role=separator]")];
  const pair = (line: HTMLElement) => (line.dataset["between"] ?? "").split(" ") as [string, string];

  const show = () => {
    for (const [name, share] of Object.entries(shares)) root.style.setProperty(`--${name}`, `${share}fr`);
    for (const line of lines) {
      const [a, b] = pair(line);
      line.setAttribute(
        "aria-valuenow",
        String(Math.round((100 * (shares[a] ?? 1)) / ((shares[a] ?? 1) + (shares[b] ?? 1)))),
      );
    }
  };
  /** Give the first of a pair this part of what both have. */
  const part = (line: HTMLElement, of: number) => {
    const [a, b] = pair(line);
    const both = (shares[a] ?? 1) + (shares[b] ?? 1);
    const kept = Math.min(1 - LEAST, Math.max(LEAST, of));
    shares = { ...shares, [a]: both * kept, [b]: both * (1 - kept) };
    show();
  };

  for (const line of lines) {
    const upright = line.getAttribute("aria-orientation") === "vertical";
    line.addEventListener("pointerdown", (event) => {
      line.setPointerCapture(event.pointerId);
      const before = line.previousElementSibling?.getBoundingClientRect();
      const after = line.nextElementSibling?.getBoundingClientRect();
      if (!before || !after) return;
      const [from, to] = upright ? [before.left, after.right] : [before.top, after.bottom];
      const move = (now: PointerEvent) => part(line, ((upright ? now.clientX : now.clientY) - from) / (to - from));
      line.addEventListener("pointermove", move);
      line.addEventListener(
        "lostpointercapture",
        () => {
          line.removeEventListener("pointermove", move);
          changed(shares);
        },
        { once: true },
      );
    });
    line.addEventListener("keydown", (event) => {
      const less = upright ? "ArrowLeft" : "ArrowUp";
      const more = upright ? "ArrowRight" : "ArrowDown";
      if (event.key !== less && event.key !== more) return;
      event.preventDefault();
      const [a, b] = pair(line);
      const now = (shares[a] ?? 1) / ((shares[a] ?? 1) + (shares[b] ?? 1));
      part(line, now + (event.key === more ? STEP : -STEP));
      changed(shares);
    });
  }
  show();
  return (again) => {
    shares = { ...again };
    show();
  };
}
