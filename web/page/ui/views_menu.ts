/** The menu of saved views in the header. Its button names the view that is shown, and marks changes to it. */

import { askForText, askWhether } from "./dialogs.js";
import { byId, element, setText } from "./dom.js";
import type { SavedLayout } from "./layout.js";
import { cleanName, MOST_NAME_CHARS, sameArrangement } from "./layout_format.js";
import { attachMenu } from "./menu.js";
import type { MenuItem } from "./menu.js";
import { DEFAULT_VIEW } from "./saved_views.js";
import type { SavedViews } from "./saved_views.js";
import type { Toast } from "./toast.js";

export class ViewsMenu {
  #layout: SavedLayout;
  #views: SavedViews;
  #toast: Toast;
  #button = byId<HTMLButtonElement>("views");
  #name = element("span", { class: "name" }, "Views");
  #mark = element("span", { class: "mark", "aria-hidden": true, hidden: true }, "•");

  constructor(layout: SavedLayout, views: SavedViews, toast: Toast) {
    this.#layout = layout;
    this.#views = views;
    this.#toast = toast;
    this.#button.append(this.#name, this.#mark);
    attachMenu(this.#button, () => this.#items());
    for (const each of [layout, views]) each.addEventListener("change", () => this.#show());
    this.#show();
  }

  open(): void {
    this.#button.focus(); // where the focus returns to
    this.#button.click();
  }

  /** Whether what is shown differs from the view that it is called after. */
  get #changed(): boolean {
    const { name, current, opened, byLink } = this.#layout;
    const saved = byLink ? opened : this.#views.find(name)?.layout;
    return name !== "" && (!saved || !sameArrangement(saved, current));
  }

  #show(): void {
    const { name, byLink } = this.#layout;
    const changed = this.#changed;
    setText(this.#name, name || "Views");
    this.#mark.hidden = !changed;
    const origin = byLink ? ", opened by a link" : "";
    this.#button.title = name ? `View “${name}”${origin}${changed ? ", changed since" : ""} (v)` : "Saved views (v)";
    this.#button.setAttribute("aria-label", this.#button.title.replace(" (v)", ""));
    this.#button.toggleAttribute("data-changed", changed);
  }

  #items(): MenuItem[] {
    const { name, byLink } = this.#layout;
    const shown = (each: string) => (!byLink && each === name ? (this.#changed ? "shown, changed" : "shown") : "");
    return [
      { heading: "Views" },
      { label: DEFAULT_VIEW, hint: "", action: () => this.#layout.reset() },
      ...this.#views.all.map((view) => ({
        label: view.name,
        hint: shown(view.name),
        action: () => this.#layout.open(view.name, view.layout),
      })),
      { heading: name ? `“${name}”${byLink ? ", opened by a link" : ""}` : "What is shown now" },
      ...(byLink ? [{ label: "Back to my own", hint: "as before the link", action: () => this.#layout.leaveLink() }] : []),
      { label: "Save as…", hint: "", action: () => this.#saveAs() },
      ...this.#itemsOfSaved(name),
      { label: "Copy link", hint: this.#changed ? "with the changes" : "", action: () => this.#copyLink() },
    ];
  }

  #itemsOfSaved(name: string): MenuItem[] {
    if (this.#layout.byLink || !this.#views.find(name)) return [];
    const update = { label: "Update", hint: "save the changes", action: () => this.#update(name) };
    return [
      ...(this.#changed ? [update] : []),
      { label: "Rename…", hint: "", action: () => this.#rename(name) },
      { label: "Delete…", hint: "", action: () => this.#delete(name) },
    ];
  }

  #saveAs(): void {
    this.#askForName({ title: "Save as a view", action: "Save", initial: "" }, (name) => {
      this.#views.add(name, this.#layout.current);
      this.#layout.setName(name);
      this.#toast.show(`Saved as “${name}”, in this browser.`);
    });
  }

  #update(name: string): void {
    const updated = Promise.resolve().then(() => {
      this.#views.update(name, this.#layout.current);
      this.#toast.show(`“${name}” is what is shown now.`);
    });
    this.#toast.showFailure(`“${name}” could not be updated`, updated);
  }

  #rename(from: string): void {
    this.#askForName({ title: `Rename “${from}”`, action: "Rename", initial: from }, (to) => {
      this.#views.rename(from, to);
      this.#layout.setName(to);
    });
  }

  #delete(name: string): void {
    const text = "What is shown stays as it is, and links to the view go on working.";
    askWhether({ title: `Delete the view “${name}”?`, action: "Delete", text }, () => {
      this.#views.delete(name);
      this.#layout.setName("");
      this.#toast.show(`“${name}” was deleted.`);
    });
  }

  #askForName(question: { title: string; action: string; initial: string }, use: (name: string) => void): void {
    const limits = { label: "Name", maxLength: MOST_NAME_CHARS };
    askForText({ ...question, ...limits }, (text) => use(cleanName(text)));
  }

  #copyLink(): void {
    const { link } = this.#layout;
    const copied = async () => {
      if (!navigator.clipboard) throw new Error("without TLS the browser denies it. The address of this page is the link");
      await navigator.clipboard.writeText(link);
      this.#toast.show("The link was copied. It carries the whole arrangement.");
    };
    this.#toast.showFailure("The link could not be copied", copied());
  }
}
