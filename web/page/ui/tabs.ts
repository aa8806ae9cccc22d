/** Tabs over panels that stay where they are: one is shown, the others are hidden. */

export type Tabs = { show: (id: string) => void };

/** `list` holds `role="tab"` buttons, each naming its panel in `aria-controls`. */
export function tabs(list: HTMLElement, first: string, shown: (tab: HTMLElement) => void): Tabs {
  const all = [...list.querySelectorAll<HTMLElement>("[role=tab]")];

  const show = (chosen: HTMLElement) => {
    for (const tab of all) {
      const yes = tab === chosen;
      tab.setAttribute("aria-selected", String(yes));
      tab.tabIndex = yes ? 0 : -1;
      const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
      if (panel) panel.hidden = !yes;
    }
    shown(chosen);
  };

  const moves: Record<string, (at: number) => number> = {
    ArrowRight: (at) => (at + 1) % all.length,
    ArrowLeft: (at) => at - 1,
    Home: () => 0,
    End: () => -1,
  };
  for (const [at, tab] of all.entries()) {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const next = all.at(moves[event.key]?.(at) ?? NaN);
      if (moves[event.key] === undefined || !next) return;
      event.preventDefault();
      show(next);
      next.focus();
    });
  }
  const find = (id: string) => all.find((tab) => tab.id === id);
  const start = find(first) ?? all[0];
  if (start) show(start);
  return {
    show(id) {
      const tab = find(id);
      if (tab) show(tab);
    },
  };
}
