/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The dialog that changes settings, of whatever has them: what it would do is said first, by the service, and what was
 * done can be taken back
 *
 * `what`, of whom is changed:
 *   name, title, note: texts; note may be missing
 *   fields, more: lists of fields, those that many need and others: { key, label, hint, type: as on the bus, and for
 *     numbers min, max and unit: what 1 in the field is on the bus; for others options: [value, text] }
 *   now: key -> value that is in force
 *   before: { runtime, stored, owner }: key -> variant, of what was set
 *   mayStore: whether it can be kept for good; whyNot: a text, where it cannot
 *   ownOnly: whether only what the owner has set can be forgotten
 *   show(key, value) -> text
 *   preview(flags, settings) -> Promise of key -> value; lines(then) -> more lines of the table
 *   set(flags, settings) -> Promise
 *   after() -> Promise of key -> value that is in force then
 */

import { variant } from "./bus.js";
import { openDialog } from "./dialog.js";
import { el, replace } from "./dom.js";
import { _, format, problem } from "./words.js";

const STORED = 1;

/* Whether no answer of the service has come, and one may when it is there again. */
const LOST = /Error\.(NoReply|ServiceUnknown|NameHasNoOwner|Disconnected)$/;
const isUnanswered = ({ name, problem: closed }) => Boolean(closed) || !name?.includes(".") || LOST.test(name);

/* What ListSettings has of it: `targets`, lifetime -> the name that its settings of that lifetime go by. */
export function setBefore(reply, targets) {
    const before = { runtime: {}, stored: {}, owner: {} };

    for (const [target, lifetime, settings] of reply[0])
        if (target === targets[lifetime])
            before[lifetime] = settings;
    return before;
}

const pick = (settings, keys) => Object.fromEntries(Object.entries(settings).filter(([key]) => keys.includes(key)));

export class ChangeDialog {
    /* `done(text, undo)`: it was changed. */
    constructor(what, done) {
        Object.assign(this, { what, done, edits: {} });
        this.fields = new Map([...what.fields, ...(what.more || [])].map(field => [field.key, field]));
        this.inputs = [];
        this.preview = el("div", { class: "preview", "aria-live": "polite" });
        this.dialog = openDialog(what.title, this.form(), [[_("Apply"), () => this.apply()]]);
        this.update();
    }

    form() {
        const { note, fields, more, mayStore, whyNot, before } = this.what;
        const anything = Object.values(before).some(settings => Object.keys(settings).length > 0);
        const keep = (value, text, disabled = false) => {
            const input = el("input", { type: "radio", name: "keep", value, checked: value === "runtime", disabled });

            input.addEventListener("input", () => this.update());
            return el("label", {}, input, text);
        };

        this.element = el(
            "form",
            { onsubmit: event => event.preventDefault() },
            note && el("p", { class: "subtle" }, note),
            el("div", { class: "fields" }, fields.map(field => this.field(field))),
            more &&
                el(
                    "details",
                    {},
                    el("summary", {}, _("More parameters")),
                    el("div", { class: "fields" }, more.map(field => this.field(field)))
                ),
            el(
                "fieldset",
                {},
                el("legend", {}, _("For how long")),
                keep("runtime", _("until the next boot")),
                keep("stored", _("for good"), !mayStore),
                anything && keep("forget", _("forget what was set"))
            ),
            whyNot && el("p", { class: "subtle" }, whyNot),
            this.preview
        );
        return this.element;
    }

    field({ key, label, hint, min, max, unit = 1, options }) {
        const id = `change-${key}`, now = this.what.now[key];
        const input = options
            ? el("select", { id }, options.map(([value, text]) => el("option", { value }, text)))
            : el("input", { id, type: "number", min, max, step: unit === 1 ? 1 : "any", required: true });
        const small = el("small", {}, typeof hint === "function" ? hint(now) : hint);

        input.value = options ? now : now / unit;
        input.addEventListener("input", () => {
            const value = options ? input.value : Math.round(input.valueAsNumber * unit);

            if (typeof hint === "function")
                replace(small, hint(value));
            if (value === now)
                delete this.edits[key];
            else
                this.edits[key] = value;
            this.update();
        });
        this.inputs.push(input);
        return el("div", { class: "field" }, el("label", { for: id }, label), input, small);
    }

    /* What is to be asked for: flags of the call, and settings as it takes them. */
    request() {
        const choice = this.element.elements.keep.value, { before, mayStore, ownOnly } = this.what;

        if (choice === "forget") {
            const names = new Set((ownOnly ? [before.owner] : Object.values(before)).flatMap(Object.keys));

            return { flags: mayStore ? STORED : 0, settings: { Unset: variant("as", [...names]) } };
        }
        const settings = Object.fromEntries(
            Object.entries(this.edits).map(([key, value]) => [key, variant(this.fields.get(key).type, value)])
        );

        return { flags: choice === "stored" ? STORED : 0, settings };
    }

    /* Before and after of all that changes: the service says what would hold. */
    async update() {
        const forget = this.element.elements.keep.value === "forget";
        const edited = forget || Object.keys(this.edits).length > 0, asked = (this.asked = {});

        this.inputs.forEach(input => (input.disabled = forget));
        this.dialog.buttons[0].disabled = true;
        if (!edited || !this.element.checkValidity()) {
            this.tell(
                edited
                    ? el("p", { class: "error" }, _("A value is out of range."))
                    : el("p", { class: "subtle" }, _("Nothing is changed yet."))
            );
            return;
        }
        const { flags, settings } = this.request();
        let then, refused;

        try {
            then = await this.what.preview(flags, settings);
        } catch (error) {
            refused = error;
        }
        if (asked !== this.asked) /* something else was typed meanwhile */
            return;
        this.dialog.buttons[0].disabled = Boolean(refused);
        if (refused && isUnanswered(refused))
            setTimeout(() => asked === this.asked && this.element.isConnected && this.update(), 1000);
        this.tell(refused ? el("p", { class: "error" }, problem(refused)) : this.table(then));
    }

    tell(what) {
        replace(this.preview, el("h3", {}, _("What that would do")), what);
    }

    table(then) {
        const { now, show, lines } = this.what;
        const changed = [...this.fields.values()]
            .filter(({ key }) => now[key] !== then[key] || key in this.edits)
            .map(({ key, label }) => [label, show(key, now[key]), show(key, then[key])]);
        const head = ["", _("Now"), _("Then")].map(text => el("th", { scope: "col" }, text));
        const line = ([what, before, after]) =>
            el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, before), el("td", {}, after));
        const all = [...changed, ...(lines ? lines(then) : [])];

        return all.length > 0
            ? el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, all.map(line)))
            : el("p", { class: "subtle" }, _("What is in force stays as it is."));
    }

    async apply() {
        const request = this.request(), { now, show, after, name } = this.what;

        await this.what.set(request.flags, request.settings);
        const then = await after();
        const parts = [...this.fields.values()]
            .filter(({ key }) => key in request.settings || now[key] !== then[key])
            .map(({ key, label }) => {
                const [was, is] = [show(key, now[key]), show(key, then[key])];

                return was === is
                    ? format(_("$0 stays $1"), label, is)
                    : format(_("$0 is now $2, and was $1"), label, was, is);
            });

        this.done(`${name}: ${parts.join("; ") || _("forgotten what was set")}.`, () => this.undo(request));
    }

    /* As it was set before: for good, until the next boot, by the owner, or not at all. */
    async undo({ flags, settings }) {
        const { before, set } = this.what;
        const names = Object.keys(settings).flatMap(key => (key === "Unset" ? settings.Unset.v : [key]));
        const runtime = pick({ ...before.owner, ...before.runtime }, names);
        const again = flags ? pick(before.stored, names) : runtime;

        await set(flags, { ...again, Unset: variant("as", names.filter(key => !(key in again))) });
        if (flags && Object.keys(runtime).length > 0)
            await set(0, runtime);
        this.done(null);
    }
}
