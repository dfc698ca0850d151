/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Dialogs and menus: modal, with the focus inside and given back afterwards, closed by Escape. */

import { add, button, el, replace, setAttribute } from "./dom.js";
import { _, format, problem } from "./words.js";

let last = 0;

/* Nobody is left without the focus: where its element is gone, the tree has it, or what is in its place. */
function giveBack(element) {
    const to = element?.isConnected ? element : document.querySelector("#page tr[tabindex='0'], .empty-state button");

    to?.focus();
}

/* `actions`: [text, handler, class]; a handler's promise closes the dialog, or says what went wrong in it. */
export function openDialog(title, content, actions = [], options = {}) {
    const id = `dialog-${++last}`, before = document.activeElement;
    const failed = el("p", { class: "error", role: "alert" });
    const element = el("dialog", { "aria-labelledby": id, class: options.wide ? "wide" : "" });
    const close = () => element.close();
    const buttons = actions.map(([text, handler, kind]) => {
        const b = button(
            text,
            () => {
                b.disabled = true;
                replace(failed);
                Promise.resolve()
                    .then(handler)
                    .then(close)
                    .catch(error => {
                        replace(failed, problem(error));
                        if (!error.goesOn) /* the handler itself says when it can be tried again */
                            b.disabled = false;
                        if (!element.contains(document.activeElement))
                            b.focus(); /* it lost it with being disabled */
                    });
            },
            { class: `button ${kind || "primary"}` }
        );

        return b;
    });

    const leave = actions.length > 0 ? _("Cancel") : _("Close");

    add(element, [
        el("h2", { id }, title),
        el("div", { class: "dialog-body" }, content),
        failed,
        el("footer", {}, buttons, button(leave, close, { class: "button plain" })),
    ]);
    element.addEventListener("close", () => {
        element.remove();
        options.onclose?.();
        giveBack(before);
    });
    document.body.append(element);
    element.showModal();
    return { element, buttons, close, failed };
}

/* `items`: [text, handler or null, why not]. Beside the button that opened it. */
export function openMenu(opener, label, items) {
    const menu = el("div", { role: "menu", "aria-label": label, class: "popup" });
    const entries = items.map(([text, handler, why]) => {
        const item = el("button", { type: "button", role: "menuitem", tabindex: -1 }, text);

        if (handler)
            item.addEventListener("click", () => {
                close();
                handler();
            });
        setAttribute(item, "aria-disabled", handler ? null : "true");
        if (why)
            item.append(el("small", {}, why));
        return item;
    });
    const outside = event => menu.contains(event.target) || close();
    const close = () => {
        if (!menu.isConnected)
            return;
        menu.remove();
        document.removeEventListener("pointerdown", outside, true);
        opener.removeAttribute("aria-expanded");
        const row = opener.closest("tr");

        giveBack(row || opener);
    };

    menu.append(...entries);
    menu.addEventListener("keydown", event => {
        const at = entries.indexOf(document.activeElement), n = entries.length;
        const to = { ArrowDown: at + 1, ArrowUp: at - 1 + n, Home: 0, End: n - 1 }[event.key];

        if (to !== undefined) {
            event.preventDefault();
            entries[to % n].focus();
        } else if (event.key === "Escape" || event.key === "Tab") {
            event.preventDefault();
            close();
        }
        event.stopPropagation();
    });
    document.body.append(menu);
    const at = opener.getBoundingClientRect(), size = menu.getBoundingClientRect();

    const fits = at.bottom + size.height <= window.innerHeight;

    menu.style.left = `${Math.max(4, at.right - size.width)}px`;
    menu.style.top = `${fits ? at.bottom : Math.max(4, at.top - size.height)}px`;
    opener.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    entries[0].focus();
}

/* Something that was done, and how to take it back. */
export class Alerts {
    constructor() {
        this.element = el("div", { class: "alerts", role: "status", "aria-live": "polite" });
    }

    /* `undo()` -> Promise of whether it was undone: what was not can be tried again. */
    say(text, kind = "", undo = null) {
        const failed = el("p", { class: "error", role: "alert" });
        const alert = el("div", { class: `alert ${kind}` }, el("div", {}, el("span", {}, text), failed));
        const leave = () => {
            alert.remove();
            if (document.activeElement === document.body)
                giveBack(null);
        };
        const dismiss = el("button", { type: "button", class: "link dismiss", onclick: leave }, "✕");

        dismiss.setAttribute("aria-label", _("Dismiss"));
        if (undo) {
            const stay = why => {
                replace(failed, why);
                b.disabled = false;
                if (document.activeElement === document.body)
                    b.focus();
            };
            const b = button(_("Undo"), () => {
                b.disabled = true;
                replace(failed);
                undo()
                    .then(undone => (undone ? leave() : stay(null)))
                    .catch(error => stay(format(_("It was not undone: $0"), problem(error))));
            }, { class: "button small undo" });

            alert.append(b);
        }
        alert.append(dismiss);
        this.element.prepend(alert);
        while (this.element.children.length > 3)
            this.element.lastChild.remove();
    }
}
