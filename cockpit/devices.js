/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The overview: a card for each device, with what it does, who has it, and its timeline. */

import { button, el, order, setText } from "./dom.js";
import { Histogram } from "./histogram.js";
import { Timeline } from "./timeline.js";
import { _, bytes, degrees, format, percent, shortName, watts } from "./words.js";

class Card {
    constructor(device, actions) {
        this.latency = new Histogram(
            _("From ready to running"),
            _("How long ready queues waited until they ran; 0 for queues that did not have to wait.")
        );
        this.timeline = new Timeline(device.id, this.latency.element);
        this.actions = actions;
        this.facts = el("dl", { class: "facts" });
        this.values = new Map();
        this.title = el("h3", {}, device.name || device.id);
        this.policy = el("span", { class: "subtle" });
        this.change = button(_("Change policy"), () => actions.changeDevice(device.id), {
            class: "button small admin",
        });
        this.element = el(
            "article",
            { class: "card device", "data-device": device.id, "aria-label": device.name || device.id },
            el(
                "header",
                {},
                el("div", {}, this.title, device.name && el("span", { class: "subtle id" }, device.id)),
                el("div", { class: "beside" }, this.policy, this.change)
            ),
            this.facts,
            this.timeline.element
        );
    }

    fact(name, value) {
        if (!this.values.has(name)) {
            const dd = el("dd", {});

            this.values.set(name, [el("div", { class: "fact" }, el("dt", {}, name), dd), dd]);
        }
        const [element, dd] = this.values.get(name);

        setText(dd, value);
        return element;
    }

    update(model, device) {
        const m = model.metrics(device), facts = [];
        const most = [...model.recent(device.id, 2000)].sort((a, b) => b[1].run - a[1].run)[0];

        facts.push(this.fact(_("In use"), percent(model.busy(device.id))));
        const runs = most && most[1].run > 0.005;

        facts.push(this.fact(_("Running now"), runs ? shortName(most[0]) || _("others") : _("nobody")));
        if (m.Utilisation !== undefined)
            facts.push(this.fact(_("Busy, by the driver"), percent(m.Utilisation / 100)));
        if (m.VRAMTotal)
            facts.push(this.fact(_("Memory"), format(_("$0 of $1"), bytes(m.VRAMUsed || 0), bytes(m.VRAMTotal))));
        if (m.Temperature !== undefined)
            facts.push(this.fact(_("Temperature"), degrees(m.Temperature)));
        if (m.Power !== undefined)
            facts.push(this.fact(_("Power"), watts(m.Power)));
        facts.push(this.fact(_("Ready"), format(_("$0 of $1"), device.ready ?? 0, device.entities ?? 0)));
        order(this.facts, facts);
        setText(this.policy, format(_("policy $0, turns of $1 ms"), device.policy, device.timeslice_usec / 1000));
        this.timeline.update(model, device.name || device.id, this.actions.choose);
        if (device.readyToRun)
            this.latency.update(device.readyToRun, model.end());
    }
}

export class Devices {
    constructor(actions) {
        this.actions = actions;
        this.cards = new Map();
        this.list = el("div", { class: "cards" });
        this.none = el("p", { class: "empty" }, _("No process has used a GPU since the service was started."));
        this.element = el(
            "section",
            { "aria-labelledby": "devices" },
            el(
                "div",
                { class: "heading" },
                el("h2", { id: "devices" }, _("Devices")),
                button(_("Try it…"), () => actions.tryIt(), { class: "button small try-it" })
            ),
            this.list
        );
    }

    update(model) {
        for (const id of [...this.cards.keys()])
            if (!model.devices.has(id))
                this.cards.delete(id);
        for (const device of model.devices.values()) {
            if (!this.cards.has(device.id))
                this.cards.set(device.id, new Card(device, this.actions));
            this.cards.get(device.id).update(model, device);
        }
        order(this.list, this.cards.size > 0 ? [...this.cards.values()].map(c => c.element) : [this.none]);
    }
}
