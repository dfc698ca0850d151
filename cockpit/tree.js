/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tree of groups, with their processes and queues: a treegrid, by mouse, keyboard and screen reader
 *
 * Rows stay the same elements as long as what they show does, and only cells that differ are written, so that hundreds
 * of them cost little each second.
 */

import { el, order, setAttribute, setText } from "./dom.js";
import { _, format, kindOf, percent, shortName, stateOf } from "./words.js";

const COLUMNS = [
    ["name", () => _("Name")],
    ["class", () => _("Class")],
    ["priority", () => _("Priority")],
    ["weight", () => _("Weight")],
    ["max", () => _("Max")],
    ["min", () => _("Min")],
    ["asked", () => _("Share asked")],
    ["got", () => _("Share got")],
    ["state", () => _("Now")],
    ["menu", () => ""],
];
const NUMBERS = new Set(["priority", "weight", "max", "min", "asked", "got"]);
const classOf = name =>
    !NUMBERS.has(name) ? name : name === "asked" || name === "got" ? "number share" : "number";

class Row {
    constructor(tree, key) {
        this.key = key;
        this.cells = Object.fromEntries(
            COLUMNS.map(([name]) => [name, el("td", { role: "gridcell", class: classOf(name) })])
        );
        this.caret = el("button", {
            type: "button",
            class: "caret",
            tabindex: -1,
            onclick: () => tree.toggle(this.key),
        });
        this.label = el("span", { class: "label" });
        this.kind = el("span", { class: "kind" });
        this.cells.name.append(this.caret, this.label, this.kind);
        this.dot = el("span", { class: "dot" });
        this.words = el("span", {});
        this.cells.state.append(this.dot, this.words);
        this.menu = el("button", {
            type: "button",
            class: "kebab",
            tabindex: -1,
            "aria-haspopup": "menu",
            onclick: () => tree.actions.menu(this.key, this.menu),
        }, "⋮");
        this.cells.menu.append(this.menu);
        this.element = el("tr", { role: "row", tabindex: -1, "data-key": key }, Object.values(this.cells));
    }

    show(level, expanded, values) {
        const shown = JSON.stringify([level, expanded, values]);

        if (shown === this.shown)
            return;
        this.shown = shown;
        setAttribute(this.element, "aria-level", level);
        setAttribute(this.element, "aria-expanded", expanded === null ? null : String(expanded));
        setAttribute(this.element, "class", `level-${Math.min(level, 8)} ${values.what}`);
        setText(this.caret, expanded ? "▾" : "▸");
        setAttribute(this.caret, "aria-label", expanded ? _("Collapse") : _("Expand"));
        setAttribute(this.caret, "hidden", expanded === null);
        setText(this.label, values.name);
        setAttribute(this.label, "title", values.title);
        setText(this.kind, values.kind || "");
        for (const name of ["class", ...NUMBERS])
            setText(this.cells[name], values[name] ?? "");
        setAttribute(this.dot, "class", values.state ? `dot ${values.state[0]}` : "dot none");
        setText(this.words, values.state ? values.state[1] : "");
        setAttribute(this.cells.state, "title", values.state ? values.state[1] : null);
        setAttribute(this.menu, "hidden", values.what === "queue");
        setAttribute(this.menu, "aria-label", format(_("Actions for $0"), values.name));
    }
}

export class Tree {
    /* actions: menu(key, button) */
    constructor(actions) {
        this.actions = actions;
        this.rows = new Map();
        this.open = new Map(); /* key -> whether; groups with groups below are open, others are not */
        this.filter = "";
        this.body = el("tbody", { role: "rowgroup" });
        this.search = el("input", {
            type: "search",
            placeholder: _("Filter by name"),
            "aria-label": _("Filter by name"),
            oninput: () => {
                this.filter = this.search.value.toLowerCase();
                this.update(this.model);
            },
        });
        this.count = el("span", { class: "subtle" }); /* not spoken: any program that starts changes it */
        this.table = el(
            "table",
            { role: "treegrid", "aria-labelledby": "groups", onkeydown: event => this.key(event) },
            el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, COLUMNS.map(([name, title]) => {
                const label = name === "menu" ? _("Actions") : null, what = classOf(name);

                return el("th", { role: "columnheader", scope: "col", class: what, "aria-label": label }, title());
            }))),
            this.body
        );
        this.table.addEventListener("focusin", event => {
            const row = event.target.closest("tr[data-key]");

            if (row)
                this.focused = row.dataset.key;
        });
        this.element = el(
            "section",
            { "aria-labelledby": "groups" },
            el("div", { class: "heading" }, el("h2", { id: "groups" }, _("Groups")), this.search, this.count),
            el("div", { class: "card table" }, this.table)
        );
    }

    toggle(key, to) {
        const row = this.rows.get(key);

        this.open.set(key, to ?? row.element.getAttribute("aria-expanded") !== "true");
        this.update(this.model);
    }

    choose(name) {
        const key = `group:${name}`;

        for (let g = this.model.groups.get(name)?.Parent; g; g = this.model.groups.get(g)?.Parent)
            this.open.set(`group:${g}`, true);
        this.update(this.model);
        this.focus(this.rows.get(key)?.element);
    }

    focus(row) {
        if (!row)
            return;
        this.focused = row.dataset.key;
        this.roving();
        row.focus();
        row.scrollIntoView({ block: "nearest" });
    }

    /* One row can be reached by tab, and the others from it by the arrows. */
    roving() {
        const rows = [...this.body.children];
        const here = rows.find(r => r.dataset.key === this.focused) || rows[0];

        for (const row of rows)
            setAttribute(row, "tabindex", row === here ? 0 : -1);
    }

    key(event) {
        const row = event.target.closest("tr[data-key]");

        if (!row || event.ctrlKey || event.altKey || event.metaKey)
            return;
        const open = row.getAttribute("aria-expanded"), rows = [...this.body.children], at = rows.indexOf(row);
        const above = () => {
            const level = Number(row.getAttribute("aria-level"));

            return rows.slice(0, at).findLast(r => Number(r.getAttribute("aria-level")) < level);
        };
        const moves = {
            ArrowDown: () => this.focus(rows[at + 1]),
            ArrowUp: () => this.focus(rows[at - 1]),
            Home: () => this.focus(rows[0]),
            End: () => this.focus(rows.at(-1)),
            ArrowRight: () => (open === "false" ? this.toggle(row.dataset.key, true) : this.focus(rows[at + 1])),
            ArrowLeft: () => (open === "true" ? this.toggle(row.dataset.key, false) : this.focus(above())),
            Enter: () => event.target === row && row.querySelector(".kebab:not([hidden])")?.click(),
        };

        if (!moves[event.key] || (event.key === "Enter" && event.target !== row))
            return;
        event.preventDefault();
        moves[event.key]();
    }

    /* --- what is shown --- */

    row(key) {
        if (!this.rows.has(key))
            this.rows.set(key, new Row(this, key));
        return this.rows.get(key);
    }

    update(model) {
        this.model = model;
        if (!model)
            return;
        this.below = model.children();
        this.processes = new Map();
        for (const c of model.clients.values())
            this.processes.set(c.group, [...(this.processes.get(c.group) || []), c]);
        this.shares(model);
        this.shown = [];
        this.hits = 0;
        for (const g of this.below.get("") || [])
            this.group(g, 1);
        const keys = new Set(this.shown.map(r => r.key));

        for (const key of [...this.rows.keys()])
            if (!keys.has(key))
                this.rows.delete(key);
        this.arrange(this.shown.map(r => r.element));
        this.roving();
        setText(
            this.count,
            this.filter
                ? format(_("$0 of $1 groups"), this.hits, model.groups.size)
                : format(_("$0 groups, $1 processes"), model.groups.size, model.clients.size)
        );
    }

    /* Of all devices: what of each a group got is added up. */
    shares(model) {
        this.got = new Map();
        this.isCut = model.isCut();
        for (const device of model.devices.values())
            for (const [name, g] of model.recent(device.id))
                for (let up = name, n = 0; up && n < 64; up = model.groups.get(up)?.Parent, n++)
                    this.got.set(up, (this.got.get(up) || 0) + g.run);
    }

    /* Where the row with the focus is gone, the next one has it, or that before it; without rows the filter has it. */
    arrange(rows) {
        const old = [...this.body.children], at = old.findIndex(r => r.contains(document.activeElement));

        order(this.body, rows);
        if (at < 0 || old[at].isConnected)
            return;
        const kept = new Set(rows);
        const next = old.slice(at).find(r => kept.has(r)) || old.slice(0, at).findLast(r => kept.has(r)) || rows[0];

        if (next)
            this.focus(next);
        else
            this.search.focus();
    }

    isHit(group) {
        return !this.filter || group.name.toLowerCase().includes(this.filter);
    }

    hasHit(group) {
        return this.isHit(group) || (this.below.get(group.name) || []).some(g => this.hasHit(g));
    }

    group(g, level) {
        if (!this.hasHit(g))
            return;
        this.hits += this.isHit(g);
        const key = `group:${g.name}`, below = this.below.get(g.name) || [], inside = this.processes.get(g.name) || [];
        const expandable = below.length + inside.length > 0;
        const open = this.open.get(key) ?? below.length > 0;
        const [kind, which] = kindOf(g), asked = this.model.asked.get(g.name), got = this.got.get(g.name);
        const row = this.row(key);

        row.show(level, expandable ? open : null, {
            what: "group",
            name: shortName(g.name),
            title: g.name,
            kind: which ? `${kind} ${which}` : kind,
            class: g.Class,
            priority: String(g.Priority),
            weight: String(g.Weight),
            max: g.Max ? `${g.Max} %` : "–",
            min: g.Min ? `${g.Min} %` : "–",
            asked: asked === undefined ? "–" : percent(asked),
            got: got === undefined ? "–" : percent(got),
            state: stateOf(g, got ?? (this.isCut ? null : 0)),
        });
        this.shown.push(row);
        if (!expandable || !open)
            return;
        below.forEach(child => this.group(child, level + 1));
        inside.forEach(c => this.process(c, level + 1));
    }

    process(c, level) {
        const key = `client:${c.id}`, open = this.open.get(key) ?? false;
        const queues = [...this.model.queues.values()].filter(q => q.client === c.id);
        const row = this.row(key);

        row.show(level, queues.length > 0 ? open : null, {
            what: "process",
            name: format(_("$0, process $1"), c.command, c.pid),
            title: c.group,
            kind: format(_("uid $0"), c.uid),
            class: c.class,
            priority: String(c.priority),
            weight: String(c.weight),
            state: c.suspended ? ["suspended", _("suspended")] : null,
        });
        this.shown.push(row);
        if (open)
            queues.forEach(q => this.queue(q, level + 1));
    }

    queue(q, level) {
        const row = this.row(`queue:${q.id}`);

        row.show(level, null, {
            what: "queue",
            name: q.label || format(_("queue $0"), q.id),
            title: q.device,
            kind: format(_("on $0"), this.model.devices.get(q.device)?.name || q.device),
            priority: String(q.priority),
            weight: String(q.weight),
            state: q.suspended ? ["suspended", _("suspended")] : null,
        });
        this.shown.push(row);
    }
}
