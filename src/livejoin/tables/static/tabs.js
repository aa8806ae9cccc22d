// @ts-check
/** Tabs over panels that stay where they are: one is shown, the others are hidden. */

/** @param {HTMLElement} list with `role="tab"` buttons, each naming its panel in `aria-controls` */
export function tabs(list) {
  const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=tab]")]);

  /** @param {HTMLElement} chosen */
  const show = (chosen) => {
    for (const tab of all) {
      const yes = tab === chosen;
      tab.setAttribute("aria-selected", String(yes));
      tab.tabIndex = yes ? 0 : -1;
      /** @type {HTMLElement} */ (document.getElementById(tab.getAttribute("aria-controls") ?? "")).hidden = !yes;
    }
  };

  /** @type {Record<string, (at: number) => number>} */
  const moves = {
    ArrowRight: (at) => (at + 1) % all.length,
    ArrowLeft: (at) => (at + all.length - 1) % all.length,
    Home: () => 0,
    End: () => all.length - 1,
  };
  for (const [at, tab] of all.entries()) {
    const name = document.createElement("span");
    const count = document.createElement("span");
    name.textContent = tab.dataset.table ?? "";
    count.className = "count";
    tab.append(name, count);
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (move === undefined) return;
      event.preventDefault();
      const next = all[move(at)];
      show(next);
      next.focus();
    });
  }
  show(all[0]);

  return {
    /** @param {Record<string, {rows: number}>} tables what a heartbeat counts */
    count(tables) {
      for (const tab of all) {
        const rows = tables[tab.dataset.table ?? ""]?.rows;
        const text = rows === undefined ? "" : rows.toLocaleString("en");
        const count = /** @type {HTMLElement} */ (tab.querySelector(".count"));
        if (count.textContent !== text) count.textContent = text;
      }
    },
  };
}
