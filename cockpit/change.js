/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The dialog that changes settings, of whatever has them: what it would do is said first, by the service, and what was
 * done can be taken back
 *
 * `what`, of whom is changed:
 *   name, title, note: texts; note may be missing
 *   fields, more: lists of fields, those that many need and others: { key, label, hint, type: as on the bus, and for
 *     numbers min, max and unit: what 1 in the field is on the bus; for others options: [value, text] }
 *   state: { now, layers } when the dialog was opened, and read() -> Promise of what they are later. now: key -> value
 *     that is in force; layers: what was set, as layers.js has it
 *   mayStore: whether it can be kept for good; whyNot: a text, where it cannot
 *   ownOnly: whether only what the owner has set can be forgotten
 *   show(key, value) -> text
 *   preview(flags, settings) -> Promise of key -> value; lines(flags, settings) -> Promise of more lines of the table
 *   set(flags, settings), restore(expected, layers) -> Promise
 *
 * Others may change the same at the same time. What they did is said before anything is written over it, and it takes
 * another click.
 */

import { variant } from "./bus.js";
import { openDialog } from "./dialog.js";
import { el, replace } from "./dom.js";
import { differing, keysOf, withKeysOf } from "./layers.js";
import { _, format, problem } from "./words.js";

const STORED = 1;

export const NOT_KEPT = () => _("The service has no directory to keep settings in: nothing is kept for good.");

/* Whether no answer of the service has come, and one may when it is there again. */
const CHANGED = "org.xsched.Scheduler.Error.Changed";
const LOST = /Error\.(NoReply|ServiceUnknown|NameHasNoOwner|Disconnected)$/;
const isUnanswered = ({ name, problem: closed }) => Boolean(closed) || !name?.includes(".") || LOST.test(name);

export class ChangeDialog {
    /* `done(text, undo)`: it was changed. */
    constructor(what, done) {
        Object.assign(this, { what, done, edits: {}, ...what.state });
        this.fields = new Map([...what.fields, ...(what.more || [])].map(field => [field.key, field]));
        this.inputs = new Map();
        this.preview = el("div", { class: "preview", "aria-live": "polite" });
        this.dialog = openDialog(what.title, this.form(), [[_("Apply"), () => this.apply()]]);
        this.update();
    }

    form() {
        const { note, fields, more, mayStore, whyNot } = this.what;
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
                this.forgettable().length > 0 && keep("forget", _("forget what was set"))
            ),
            whyNot && el("p", { class: "subtle" }, whyNot),
            this.preview
        );
        return this.element;
    }

    field({ key, label, hint, min, max, unit = 1, options }) {
        const id = `change-${key}`;
        const input = options
            ? el("select", { id }, options.map(([value, text]) => el("option", { value }, text)))
            : el("input", { id, type: "number", min, max, step: unit === 1 ? 1 : "any", required: true });
        const small = el("small", {});
        const tellHint = value => replace(small, typeof hint === "function" ? hint(value) : hint);

        /* In force now, where nothing else was typed. */
        const show = () => {
            input.value = options ? this.now[key] : this.now[key] / unit;
            tellHint(this.now[key]);
        };

        show();
        input.addEventListener("input", () => {
            const value = options ? input.value : Math.round(input.valueAsNumber * unit);

            tellHint(value);
            if (value === this.now[key])
                delete this.edits[key];
            else
                this.edits[key] = value;
            this.update();
        });
        this.inputs.set(key, { input, show });
        return el("div", { class: "field" }, el("label", { for: id }, label), input, small);
    }

    /* What was set, by whom this person may take it back from. */
    forgettable() {
        return keysOf(this.what.ownOnly ? { owner: this.layers.owner || {} } : this.layers);
    }

    /* What is to be asked for: flags of the call, and settings as it takes them. */
    request() {
        const choice = this.element.elements.keep.value, { mayStore } = this.what;

        if (choice === "forget")
            return { flags: mayStore ? STORED : 0, settings: { Unset: variant("as", this.forgettable()) } };
        const edits = Object.entries(this.edits).map(([key, value]) =>
            [key, variant(this.fields.get(key).type, value)]
        );
        const settings = Object.fromEntries(choice === "stored" && edits.length === 0 ? this.passing() : edits);

        return { flags: choice === "stored" ? STORED : 0, settings };
    }

    /* What is set until the next boot only, and can be kept for good. */
    passing() {
        const { runtime, stored } = this.layers;

        return Object.entries(runtime || {}).filter(([key, { v }]) => this.fields.has(key) && stored?.[key]?.v !== v);
    }

    /* Before and after of all that changes: the service says what would hold. It is asked one question at a time, so
     * that who types quickly asks for the first value and the last. */
    async update() {
        const forget = this.element.elements.keep.value === "forget";
        const { flags, settings } = this.request(), asked = (this.asked = {});
        const edited = Object.keys(settings).length > 0;

        this.inputs.forEach(({ input }) => (input.disabled = forget));
        this.dialog.buttons[0].disabled = true;
        if (!edited || !this.element.checkValidity()) {
            this.tell(
                edited
                    ? el("p", { class: "error" }, _("A value is out of range."))
                    : el("p", { class: "subtle" }, _("Nothing is changed yet."))
            );
            return;
        }
        if (this.isAsking)
            return;
        let table, refused;

        this.isAsking = true;
        try {
            table = await this.table(await this.what.preview(flags, settings), flags, settings);
        } catch (error) {
            refused = error;
        }
        this.isAsking = false;
        if (asked !== this.asked) { /* something else was typed meanwhile */
            this.update();
            return;
        }
        this.dialog.buttons[0].disabled = Boolean(refused);
        if (refused && isUnanswered(refused))
            setTimeout(() => asked === this.asked && this.element.isConnected && this.update(), 1000);
        this.tell(refused ? el("p", { class: "error" }, problem(refused)) : table);
    }

    tell(what) {
        replace(this.preview, el("h3", {}, _("What this would change")), what);
    }

    async table(then, flags, settings) {
        const { show, lines } = this.what, { now } = this;
        const changed = [...this.fields.values()]
            .filter(({ key }) => now[key] !== then[key] || key in settings)
            .map(({ key, label }) => [label, show(key, now[key]), show(key, then[key])]);
        const head = [el("td", {}), ...[_("Now"), _("Then")].map(text => el("th", { scope: "col" }, text))];
        const line = ([what, before, after]) =>
            el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, before), el("td", {}, after));
        const all = [...changed, ...(lines ? await lines(flags, settings) : [])];

        return all.length > 0
            ? el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, all.map(line)))
            : el("p", { class: "subtle" }, _("The settings in force stay the same."));
    }

    /* What is in force, or at least what was set, of a key; in words. */
    valueOf({ now, layers }, key) {
        const { runtime, stored, owner } = layers;

        return this.what.show(key, now[key] ?? (runtime?.[key] ?? stored?.[key] ?? owner?.[key])?.v);
    }

    labelOf(key) {
        return this.fields.get(key)?.label || key;
    }

    /* Of some keys, what was and what is. */
    compare(keys, was, is) {
        return keys
            .map(key => {
                const [a, b] = [this.valueOf(was, key), this.valueOf(is, key)], label = this.labelOf(key);

                return a === b ? format(_("$0 is still $1, but from another source"), label, b)
                    : format(_("$0 was $1 and is $2 now"), label, a, b);
            })
            .join("; ");
    }

    /* Takes what there is now, where that is not what the dialog shows: somebody else was quicker. */
    async meet() {
        const { now, layers } = this, is = await this.what.read();
        const keys = new Set([...this.fields.keys()].filter(key => now[key] !== is.now[key]));

        differing(layers, is.layers).forEach(key => keys.add(key));
        if (keys.size === 0)
            return;
        Object.assign(this, is);
        for (const [key, { show }] of this.inputs)
            if (!(key in this.edits))
                show();
            else if (this.edits[key] === is.now[key])
                delete this.edits[key];
        this.update();
        throw Object.assign(
            new Error(
                format(
                    _("It has changed since this was opened: $0. Nothing was done; look again before you apply."),
                    this.compare([...keys], { now, layers }, is)
                )
            ),
            { goesOn: true }
        );
    }

    async apply() {
        const request = this.request(), { name, show } = this.what;

        await this.meet();
        const before = { now: this.now, layers: this.layers };

        await this.what.set(request.flags, request.settings);
        /* It is done. What cannot be read now is read when it is to be undone. */
        const after = await this.what.read().catch(() => null);
        const parts = [...this.fields.values()]
            .filter(({ key }) => key in request.settings || (after && before.now[key] !== after.now[key]))
            .map(({ key, label }) => {
                const was = show(key, before.now[key]), is = after && show(key, after.now[key]);

                if (!after)
                    return format(_("$0 was $1"), label, was);
                return was === is
                    ? format(_("$0 stays $1"), label, is)
                    : format(_("$0 is now $1, and was $2"), label, is, was);
            });

        this.done(`${name}: ${parts.join("; ") || _("forgotten what was set")}.`, () =>
            this.undo(before, after, request)
        );
    }

    /* Whether what is set now may be what the request left, where that could not be read. */
    isAsRequested(layers, { flags, settings }) {
        const { Unset, ...others } = settings;
        const places = flags ? [layers.stored] : [layers.runtime, layers.owner];

        return (
            Object.entries(others).every(([key, { v }]) => places.some(place => place?.[key]?.v === v)) &&
            !Unset?.v.some(key => keysOf(layers).includes(key))
        );
    }

    /* Those that were asked for, and those of the owner that gave way to them. */
    keysChanged(before, is, { settings }) {
        const { Unset, ...others } = settings;

        return [
            ...new Set([
                ...Object.keys(others),
                ...(Unset?.v || []),
                ...differing({ owner: before.owner || {} }, { owner: is.owner || {} }),
            ]),
        ];
    }

    /* As it was set before, in each lifetime; `agreed`: what somebody else has made of it, and may be written over. */
    async undo(before, after, request, agreed = null) {
        const { read, restore } = this.what, is = await read();
        const ours = after?.layers || (this.isAsRequested(is.layers, request) ? is.layers : {});
        /* Not what somebody else has set between our change and our look at it. */
        const keys = this.keysChanged(before.layers, after ? ours : is.layers, request).filter(
            key => !after || differing(before.layers, ours).includes(key)
        );
        const others = differing(ours, is.layers).filter(key => keys.includes(key));

        if (others.length > 0 && !(agreed && differing(agreed, is.layers).length === 0))
            return this.askAgain(before, after || before, is, others, () =>
                this.undo(before, after, request, is.layers)
            );
        try {
            await restore(is.layers, withKeysOf(is.layers, before.layers, keys));
        } catch (error) {
            if (error.name !== CHANGED)
                throw error;
            return this.undo(before, after, request, agreed); /* just now */
        }
        this.done(null);
        return true;
    }

    backTo(key, before) {
        return format(_("$0 as it was at $1"), this.labelOf(key), this.valueOf(before, key));
    }

    /* Whether to undo all the same: a promise of whether it was undone. */
    askAgain(before, after, is, keys, undo) {
        return new Promise(resolve =>
            openDialog(
                format(_("Undo the change of $0?"), this.what.name),
                [
                    el("p", {}, format(_("It has changed since: $0."), this.compare(keys, after, is))),
                    el("p", {}, _("Undoing your change would replace that by what was set before:")),
                    el("ul", {}, keys.map(key => el("li", {}, this.backTo(key, before)))),
                ],
                [[_("Undo all the same"), async () => resolve(await undo()), "danger"]],
                { onclose: () => resolve(false) }
            )
        );
    }
}
