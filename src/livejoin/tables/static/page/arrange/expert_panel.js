/** Perspective's own panel, for what the Arrange panel does not offer: computed columns, styles, other charts. */
import { styleSheet } from "../grid/style_sheet.js";
/**
 * Its bar has a list of themes, a reset, exports and a "+" that loads another table into the viewer: the page has its
 * own, or nothing of the kind. Some of its labels are too pale.
 */
export const EXPERT_PANEL = styleSheet(`
  #status_bar { display: none !important }
  #settings_panel, #settings_panel .settings_tab, #settings_panel select, #settings_panel .dropdown-width-container,
  #settings_panel .pivot-selector-label, #settings_panel .pivot-selector-label::before,
  #settings_panel .pivot-selector-label::after {
    color: var(--text) !important;
    opacity: 1 !important;
  }
  #settings_panel .pivot_controls *, #settings_panel .pivot_controls *::before, #settings_panel .pivot_controls *::after {
    color: var(--text) !important;
    opacity: 1 !important;
  }
  #settings_panel { background: var(--card) !important }
  #settings_panel .settings_tab { background: var(--background) !important }
  #settings_panel .selected_tab { background: var(--card) !important }
`);
/** Escape closes it, from wherever the focus is, and gives the focus to `opener`. */
export async function openExpertPanel(viewer, opener) {
    const opened = viewer.toggleConfig(true);
    const closeOnEscape = async (event) => {
        const elsewhere = event.defaultPrevented || event.target.closest("dialog, [popover]");
        if (event.key !== "Escape" || elsewhere)
            return;
        document.removeEventListener("keydown", closeOnEscape);
        await opened;
        if (await closeExpertPanel(viewer))
            opener.focus();
    };
    document.addEventListener("keydown", closeOnEscape);
    await opened;
    const panel = viewer.shadowRoot?.querySelector("#settings_panel");
    if (!panel)
        return;
    panel.tabIndex = -1;
    panel.focus();
}
/** Returns whether it was open. */
export async function closeExpertPanel(viewer) {
    const { settings = false } = await viewer.save();
    if (settings)
        await viewer.toggleConfig(false);
    return settings;
}
