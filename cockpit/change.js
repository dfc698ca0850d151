/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing a group: what it would do is said first, and what was done can be taken back. */

import { NAME, variant } from "./bus.js";
import { holds, NAMES, readChain, setSoFar, show } from "./chain.js";
import { openDialog } from "./dialog.js";
import { el, replace } from "./dom.js";
import { sharesAsked } from "./shares.js";
import { _, format, percent, problem, shortName } from "./words.js";

const GROUP = `${NAME}.Group`;
const FIELDS = [
    ["Priority", "i", -255, 255],
    ["Weight", "u", 1, 10000],
    ["Max", "u", 0, 10000],
    ["Min", "u", 0, 100],
];
const TYPES = { Class: "s", ...Object.fromEntries(FIELDS.map(([key, type]) => [key, type])) };
const STORED = 1;

export const readClasses = reply =>
    new Map(reply[0].map(([name, about, settings]) => [
        name,
        Object.assign(Object.fromEntries(Object.entries(settings).map(([k, v]) => [k, v.v])), { about }),
    ]));

function travelling(settings) {
    return Object.fromEntries(Object.entries(settings).map(([key, value]) => [key, variant(TYPES[key], value)]));
}

export class Change {
    /* `owner`: who may only lower what is his. `done(text, undo)`: it was changed. */
    constructor(bus, model, name, owner, done) {
        Object.assign(this, { bus, model, name, owner, done, edits: {} });
    }

    call(method, flags, settings) {
        return this.bus.call(method, "ta{sv}", [flags, settings], this.bus.groupPath(this.name), GROUP);
    }

    set(flags, settings) {
        return this.call("Set", flags, settings);
    }

    flags() {
        return this.element.elements.keep.value === "stored" ? STORED : 0;
    }

    async explain() {
        const path = this.bus.groupPath(this.name);

        return readChain((await this.bus.call("ExplainObject", "o", [path]))[0]);
    }

    async open() {
        const [keys, classes] = await Promise.all([this.explain(), this.bus.call("ListClasses", "")]);

        this.keys = keys;
        this.classes = readClasses(classes);
        this.preview = el("div", { class: "preview", "aria-live": "polite" });
        this.dialog = openDialog(format(_("Change $0"), shortName(this.name)), this.form(), [
            [_("Apply"), () => this.apply()],
        ]);
        this.update();
    }

    form() {
        const select = el("select", { id: "change-Class", oninput: () => this.edit("Class", select.value) });

        for (const [name, { about }] of this.classes)
            select.append(el("option", { value: name, title: about }, name));
        select.value = holds(this.keys, "Class");
        const field = (key, input, hint) =>
            el(
                "div",
                { class: "field" },
                el("label", { for: `change-${key}` }, NAMES[key]()),
                input,
                el("small", {}, hint)
            );
        const hints = {
            Priority: _("-255 to 255; the higher runs first"),
            Weight: _("1 to 10000; 100 is usual"),
            Max: _("percent; 0 is no limit"),
            Min: _("percent; 0 is no guarantee"),
        };
        const numbers = FIELDS.map(([key, , min, max]) => {
            const input = el("input", { id: `change-${key}`, type: "number", min, max, step: 1, required: true });

            input.value = holds(this.keys, key);
            input.addEventListener("input", () => this.edit(key, input.valueAsNumber));
            return field(key, input, hints[key]);
        });
        const keep = (value, text, disabled) => {
            const checked = value === "runtime";

            const input = el("input", { type: "radio", name: "keep", value, checked, disabled });

            input.addEventListener("input", () => this.update());
            return el("label", {}, input, text);
        };

        this.element = el(
            "form",
            { onsubmit: event => event.preventDefault() },
            this.owner &&
                el("p", { class: "subtle" }, _("It is yours: you can lower what it has, and take that back.")),
            el("div", { class: "fields" }, field("Class", select, ""), numbers),
            el("fieldset", {}, el("legend", {}, _("For how long")), keep("runtime", _("until the next boot"), false),
                keep("stored", _("for good"), this.owner)),
            this.preview
        );
        return this.element;
    }

    edit(key, value) {
        if (value === holds(this.keys, key))
            delete this.edits[key];
        else
            this.edits[key] = value;
        this.update();
    }

    /* Before and after of all that changes, and of the share: the service says what would hold. */
    async update() {
        const valid = this.element.checkValidity(), edited = Object.keys(this.edits).length > 0;
        const asked = (this.asked = {});

        this.dialog.buttons[0].disabled = true;
        if (!edited || !valid) {
            this.tell(
                edited
                    ? el("p", { class: "error" }, _("A value is out of range."))
                    : el("p", { class: "subtle" }, _("Nothing is changed yet."))
            );
            return;
        }
        let then, refused;

        try {
            [then] = await this.call("Preview", this.flags(), travelling(this.edits));
        } catch (error) {
            refused = error;
        }
        if (asked !== this.asked) /* something else was typed meanwhile */
            return;
        this.dialog.buttons[0].disabled = Boolean(refused);
        this.tell(
            refused ? el("p", { class: "error" }, problem(refused)) : this.table(this.changes(then))
        );
    }

    tell(what) {
        replace(this.preview, el("h3", {}, _("What that would do")), what);
    }

    /* `then`: what would hold, of Preview. */
    changes(then) {
        const rows = Object.keys(NAMES)
            .map(key => [key, holds(this.keys, key), then[key]?.v])
            .filter(([key, before, after]) => before !== after || key in this.edits);

        this.after = Object.fromEntries(rows.map(([key, , after]) => [key, after]));
        const lines = rows.map(([key, before, after]) => [NAMES[key](), show(key, before), show(key, after)]);

        return [...lines, ...this.shareLines()];
    }

    table(lines) {
        const head = ["", _("Now"), _("Then")].map(text => el("th", { scope: "col" }, text));
        const line = ([what, before, after]) =>
            el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, before), el("td", {}, after));

        return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, lines.map(line)));
    }

    /* On each device: what it is to get while all that wanted the device in the last minute still do. */
    shareLines() {
        const lines = [];

        for (const device of this.model.devices.values()) {
            const wanting = new Set(this.model.recent(device.id, 60000).keys());
            const wants = [...wanting].some(n => this.isWithin(n));

            if (device.policy !== "tree" || !(wants || this.hasQueue(device.id)))
                continue;
            if (!wants)
                wanting.add(this.name);
            const asked = change => sharesAsked(this.model.groups, [...wanting], change).get(this.name);
            const now = asked(null), then = asked({ name: this.name, ...this.after });

            if (now !== undefined && then !== undefined)
                lines.push([format(_("Share of $0"), device.name || device.id), percent(now), percent(then)]);
        }
        return lines;
    }

    hasQueue(device) {
        return [...this.model.queues.values()].some(
            q => q.device === device && this.isWithin(this.model.clients.get(q.client)?.group)
        );
    }

    isWithin(name) {
        for (let g = name, n = 0; g && n < 64; g = this.model.groups.get(g)?.Parent, n++)
            if (g === this.name)
                return true;
        return false;
    }

    async apply() {
        const flags = this.flags();
        const edits = { ...this.edits }, before = this.keys;

        await this.set(flags, travelling(edits));
        const after = await this.explain();
        const parts = Object.keys(NAMES)
            .filter(key => key in edits || holds(before, key) !== holds(after, key))
            .map(key => {
                const [was, is] = [show(key, holds(before, key)), show(key, holds(after, key))];

                return was === is
                    ? format(_("$0 stays $1"), NAMES[key](), is)
                    : format(_("$0 is now $2, and was $1"), NAMES[key](), was, is);
            });

        this.done(`${shortName(this.name)}: ${parts.join("; ")}.`, () => this.undo(before, Object.keys(edits), flags));
    }

    /* As it was set before: for good, until the next boot, by the owner, or not at all. */
    async undo(before, names, flags) {
        const of = which =>
            travelling(Object.fromEntries(
                names.map(key => [key, setSoFar(before, key)[which]]).filter(([, value]) => value !== undefined)
            ));
        const stored = of("stored"), runtime = { ...of("owner"), ...of("runtime") };
        const forget = names.filter(key => !(key in (flags ? stored : runtime)));

        await this.set(flags, { ...(flags ? stored : runtime), Unset: variant("as", forget) });
        if (flags && Object.keys(runtime).length > 0)
            await this.set(0, runtime);
        this.done(null);
    }
}
