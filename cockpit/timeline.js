/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who ran in the last minute, stacked by group, and who waited: one picture for each device
 *
 * In the look of `xschedctl plot`: colours are those of Okabe and Ito, and areas have an edge. A group keeps its colour
 * as long as it is among those that are named.
 */

import { el, order, replace, setAttribute, setText, svg } from "./dom.js";
import { SPAN_MS } from "./model.js";
import { _, format, percent, shortName } from "./words.js";

const NAMED = 7;
const LEAST = 280, USE_HEIGHT = 110, GAP = 18, WAIT_HEIGHT = 40, LEFT = 36, BOTTOM = 18;
const HEIGHT = USE_HEIGHT + GAP + WAIT_HEIGHT + BOTTOM + 6;
const USE_TOP = 4, WAIT_TOP = USE_TOP + USE_HEIGHT + GAP;
const OTHERS = "\n";

export class Timeline {
    /* `below`: an element below the legend. */
    constructor(id, below) {
        this.id = id;
        this.colors = new Map(); /* name -> place among the colours */
        this.areas = [];
        for (let i = 0; i <= NAMED; i++) {
            const area = () => svg("path", { class: `series-${i}` });

            this.areas.push({ run: area(), wait: area() });
        }
        this.kept = svg("path", { class: "kept" });
        this.scale = svg("text", { class: "tick", x: LEFT - 4, y: WAIT_TOP + 9, "text-anchor": "end" });
        this.frame = svg("g", {});
        this.picture = svg("svg", { class: "timeline", height: HEIGHT, role: "img" }, this.frame, [
            this.kept,
            this.areas.map(a => [a.run, a.wait]),
            this.scale,
        ]);
        this.legend = el("ul", { class: "legend" });
        this.lines = new Map();
        this.redraw = () => {};
        new ResizeObserver(() => this.redraw()).observe(this.picture);
        this.element = el(
            "div",
            { class: "timeline-box" },
            this.picture,
            el("div", { class: "beside-picture" }, this.legend, below)
        );
    }

    /* In the pixels that there are: words are as large in a narrow picture as in a wide one. */
    resize(width) {
        if (width === this.width)
            return;
        this.width = width;
        this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
        const text = (x, y, anchor, words) => svg("text", { class: "tick", x, y, "text-anchor": anchor }, words);
        const line = y => svg("path", { class: "grid", d: `M${LEFT} ${y}H${width}` });
        const seconds = width < 360 ? [60, 30, 0] : [60, 45, 30, 15, 0];

        replace(
            this.frame,
            [0, 0.5, 1].map(part => line(USE_TOP + USE_HEIGHT * (1 - part))),
            line(WAIT_TOP + WAIT_HEIGHT),
            text(LEFT - 4, USE_TOP + 8, "end", "100 %"),
            text(LEFT - 4, USE_TOP + USE_HEIGHT, "end", "0"),
            text(LEFT, WAIT_TOP - 5, "start", _("waiting")),
            seconds.map(s =>
                text(
                    LEFT + (1 - s / 60) * (width - LEFT),
                    HEIGHT - 6,
                    s === 60 ? "start" : s === 0 ? "end" : "middle",
                    s === 0 ? _("now") : format(_("$0 s ago"), s)
                )
            )
        );
    }

    /* Those that ran or waited most keep a place among the colours, or get one that is free. */
    assign(totals) {
        const most = [...totals]
            .filter(([name]) => name)
            .sort((a, b) => b[1].run + b[1].wait - a[1].run - a[1].wait)
            .slice(0, NAMED);
        const named = new Set(most.map(([name]) => name));

        for (const name of [...this.colors.keys()])
            if (!named.has(name))
                this.colors.delete(name);
        for (const name of named)
            if (!this.colors.has(name)) {
                const taken = new Set(this.colors.values());

                this.colors.set(name, [...Array(NAMED).keys()].find(i => !taken.has(i)));
            }
    }

    update(model, name, choose) {
        const samples = model.samples, end = model.end(), begin = end - SPAN_MS;
        this.redraw = () => this.update(model, name, choose);
        this.resize(Math.max(LEAST, Math.round(this.picture.getBoundingClientRect().width)));
        const x = t => (LEFT + (Math.max(0, t - begin) / SPAN_MS) * (this.width - LEFT)).toFixed(1);
        const totals = model.recent(this.id, SPAN_MS), recent = model.recent(this.id);

        this.assign(totals);
        const place = group => this.colors.get(group) ?? NAMED;
        const slots = samples
            .filter(s => s.end > begin)
            .map(s => ({ x0: x(s.begin), x1: x(s.end), ...this.slot(s, place) }));
        const most = Math.max(1, ...slots.map(s => s.wait.reduce((a, b) => a + b, 0)));

        this.draw("run", slots, USE_TOP, USE_HEIGHT, 1);
        this.draw("wait", slots, WAIT_TOP, WAIT_HEIGHT, most);
        setAttribute(this.kept, "d", this.keptPath(slots));
        setText(this.scale, String(Math.ceil(most)));
        this.tell(totals, recent, name, choose);
    }

    slot(sample, place) {
        const run = new Array(NAMED + 1).fill(0), wait = new Array(NAMED + 1).fill(0);
        const device = sample.devices.get(this.id);

        for (const [group, g] of device?.groups || []) {
            run[place(group)] += g.run;
            wait[place(group)] += g.wait;
        }
        return { run, wait, kept: device?.kept || 0, busy: device?.busy || 0 };
    }

    draw(what, slots, top, height, most) {
        const bases = slots.map(() => 0), y = part => (top + height * (1 - Math.min(1, part / most))).toFixed(1);

        this.areas.forEach((area, i) => {
            let d = "";

            slots.forEach((s, k) => {
                const part = s[what][i];

                if (part / most > 0.002)
                    d += `M${s.x0} ${y(bases[k])}V${y(bases[k] + part)}H${s.x1}V${y(bases[k])}Z`;
                bases[k] += part;
            });
            setAttribute(area[what], "d", d || null);
        });
    }

    keptPath(slots) {
        const y = part => (USE_TOP + USE_HEIGHT * (1 - Math.min(1, part))).toFixed(1);

        return (
            slots
                .filter(s => s.kept > 0.002)
                .map(s => `M${s.x0} ${y(s.busy)}V${y(s.busy + s.kept)}H${s.x1}V${y(s.busy)}Z`)
                .join("") || null
        );
    }

    /* Who has it now, in words: the same as the colours say. */
    tell(totals, recent, name, choose) {
        const sorted = [...this.colors].sort((a, b) => a[1] - b[1]);
        const rest = { run: 0, wait: 0 };

        for (const [group, g] of recent)
            if (!this.colors.has(group)) {
                rest.run += g.run;
                rest.wait += g.wait;
            }
        const entries = sorted.map(([group, i]) => [group, i, recent.get(group) || { run: 0, wait: 0 }]);

        if ([...totals.keys()].some(group => !this.colors.has(group)))
            entries.push([OTHERS, NAMED, rest]);
        const items = entries.map(([group, i, g]) => this.line(group, i, g, choose));

        for (const group of [...this.lines.keys()])
            if (!entries.some(e => e[0] === group))
                this.lines.delete(group);
        order(this.legend, items);
        setAttribute(
            this.picture,
            "aria-label",
            format(
                _("Groups that ran on $0 in the last minute: $1"),
                name,
                entries.map(([group, , g]) => `${this.nameOf(group)} ${percent(g.run)}`).join(", ") || _("nobody")
            )
        );
    }

    nameOf(group) {
        return group === OTHERS ? _("others") : shortName(group);
    }

    line(group, i, g, choose) {
        if (!this.lines.has(group)) {
            const swatch = svg("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" });
            const attributes = { type: "button", class: "link name", title: group, onclick: () => choose(group) };
            const label =
                group === OTHERS
                    ? el("span", { class: "name" }, this.nameOf(group))
                    : el("button", attributes, this.nameOf(group));

            swatch.append(svg("rect", { width: 10, height: 10 }));
            this.lines.set(
                group,
                el("li", {}, swatch, label, el("span", { class: "part" }), el("span", { class: "wait" }))
            );
        }
        const line = this.lines.get(group);

        setAttribute(line.querySelector("rect"), "class", `series-${i}`);
        setText(line.querySelector(".part"), percent(g.run));
        setText(line.querySelector(".wait"), g.wait > 0.002 ? format(_("waits $0"), percent(g.wait)) : "");
        return line;
    }
}
