/** Perspective's own panel, for what the Arrange panel does not offer: computed columns, styles, other charts. */

import type { Viewer } from "../grid/perspective.js";
import { styleSheet } from "../grid/style_sheet.js";

/**
 * Its bar has a list of themes, a reset, exports and a "+" that loads another table into the viewer: the page has its
 * own, or nothing of the kind. Some of its labels are too pale.
 */
export const EXPERT_PANEL = styleSheet(`
  #status_bar { display: none !important }
  #settings_panel, #settings_panel .settings_tab, #settings_panel select, #settings_panel .dropdown-width-container {
    color: var(--text) !important;
    opacity: 1 !important;
  }
  #settings_panel { background: var(--card) !important }
  #settings_panel .settings_tab { background: var(--background) !important }
  #settings_panel .selected_tab { background: var(--card) !important }
`);

export async function openExpertPanel(viewer: Viewer, opener: HTMLElement): Promise<void> {
  await viewer.toggleConfig(true);
  const panel = viewer.shadowRoot?.querySelector<HTMLElement>("#settings_panel");
  if (!panel) return;
  panel.tabIndex = -1;
  panel.focus();
  const closeOnEscape = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    viewer.removeEventListener("keydown", closeOnEscape);
    if (!panel.isConnected) return; // closed by its own button
    event.preventDefault(); // the Arrange panel of another table stays open
    void closeExpertPanel(viewer);
    opener.focus();
  };
  viewer.addEventListener("keydown", closeOnEscape);
}

export async function closeExpertPanel(viewer: Viewer): Promise<void> {
  if ((await viewer.save()).settings) await viewer.toggleConfig(false);
}
