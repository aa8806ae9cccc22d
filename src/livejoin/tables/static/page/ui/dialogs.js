/** Small questions in a dialog. Escape and Cancel close it without an answer. */
import { button, element, setText } from "./dom.js";
/** Ask for a text. It stays open while `use` throws, and shows why. */
export function askForText({ title, action, label, initial, maxLength }, use) {
    const field = element("input", { type: "text", name: "text", value: initial, maxlength: maxLength, autocomplete: "off" });
    ask({ title, action }, element("label", {}, label, field), () => use(field.value));
    field.select();
}
export function askWhether({ title, action, text }, confirmed) {
    ask({ title, action }, element("p", {}, text), confirmed);
}
function ask({ title, action }, content, answer) {
    const heading = element("h2", { id: "question-title" }, title);
    const trouble = element("p", { role: "alert" });
    const dialog = element("dialog", { class: "question", "aria-labelledby": heading.id });
    const cancel = button("Cancel", {}, () => dialog.close());
    const form = element("form", {}, content, trouble, cancel, element("button", { class: "primary" }, action));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        try {
            answer();
            dialog.close();
        }
        catch (error) {
            setText(trouble, error instanceof Error ? error.message : String(error));
        }
    });
    dialog.addEventListener("close", () => dialog.remove());
    dialog.append(heading, form);
    document.body.append(dialog);
    dialog.showModal();
}
