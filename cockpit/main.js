/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The page: what it is made of, and what it asks of the service each second. */

/* global cockpit */

import { Actions } from "./actions.js";
import { Bus, startService } from "./bus.js";
import { Devices } from "./devices.js";
import { Alerts } from "./dialog.js";
import { button, el, order, replace, setText } from "./dom.js";
import { Model, SPAN_MS } from "./model.js";
import { Tree } from "./tree.js";
import { tryIt } from "./tryit.js";
import { _, format, problem } from "./words.js";

const MEASURE_EVERY = 3; /* turns */
const LATE_MS = 3000;
const DESCRIBE_EVERY = 5; /* turns, however often something comes and goes */

class Page {
    constructor(root) {
        this.root = root;
        this.model = new Model();
        this.bus = new Bus();
        this.turns = 0;
        this.unmeasured = new Set(); /* devices that cannot be measured */
        this.alerts = new Alerts();
        this.actions = new Actions(this.bus, this.model, this.alerts, () => this.refresh());
        this.devices = new Devices({
            choose: name => this.tree.choose(name),
            tryIt: () => this.actions.try(tryIt),
            changeDevice: id => this.actions.changeDevice(id),
        });
        this.tree = new Tree({ menu: (key, opener) => this.actions.menu(key, opener) });
        this.degraded = el("div", { class: "alert warning", hidden: true });
        this.silent = el("div", { class: "alert warning silent", role: "status", hidden: true });
        this.version = el("p", { class: "subtle version" });
        this.readOnly = el("p", { class: "subtle read-only", hidden: true });
        this.content = [
            this.alerts.element,
            this.readOnly,
            this.silent,
            this.degraded,
            this.devices.element,
            this.tree.element,
            this.version,
        ];
    }

    start() {
        cockpit.translate();
        document.title = _("GPU scheduling");
        this.say(_("Loading…"));
        this.bus.start({
            onpresent: () => this.begin(),
            onabsent: () => this.gone(),
            onsignal: (path, iface, signal, args) => this.signal(path, iface, signal, args),
            onturn: () => this.turn(),
            onsilence: (ms, error) => this.silence(ms, error),
            onpermissions: () => this.permissions(),
        });
    }

    /* --- the service --- */

    /* It is there, for the first time or again: nothing that was known counts. */
    begin() {
        this.model.clear();
        this.stale = true;
        this.described = -Infinity;
        this.until = null;
        this.failures = 0;
        this.unmeasured.clear();
        this.isShown = false;
    }

    gone() {
        const failed = el("p", { class: "error", role: "alert" });
        const start = button(
            _("Start the service"),
            () => {
                start.disabled = true;
                setText(failed, "");
                startService()
                    .catch(error => setText(failed, format(_("It could not be started: $0"), problem(error))))
                    .finally(() => (start.disabled = false));
            },
            { class: "button primary" }
        );

        this.isShown = false;
        this.root.setAttribute("aria-busy", "false");
        this.say(
            _("The GPU scheduler does not run"),
            el("p", {}, _("xsched.service is not there. Programs use the GPU as if there were no scheduler.")),
            el("p", {}, _("This page shows it again as soon as it is back.")),
            start,
            failed
        );
    }

    /* In place of all that is shown. */
    say(title, ...more) {
        replace(this.root, el("div", { class: "empty-state", role: "status" }, el("h1", {}, title), more));
    }

    /*
     * The service has not answered for so long, or not as it should: what is shown is from before. Nothing of that: it
     * has answered. What fails once may be the last of a service that is gone.
     */
    silence(ms, error) {
        this.failures = error ? this.failures + 1 : ms > 0 ? this.failures : 0;
        const text = this.failures > 1 && error
            ? format(_("The service answers with an error: $0"), problem(error))
            : ms > LATE_MS && format(_("The service has not answered for $0 seconds."), Math.floor(ms / 1000));

        this.silent.hidden = !text;
        if (text && this.isShown)
            setText(this.silent, `${text} ${_("What is shown is from before.")}`);
        else if (text)
            this.say(text);
    }

    /* There are data, handlers, and the word of polkit on what can be changed: it can be used. */
    ready() {
        if (this.isShown && this.isPermitted)
            this.root.setAttribute("aria-busy", "false");
    }

    permissions() {
        this.isPermitted = true;
        this.ready();
        document.documentElement.classList.toggle("may-manage", this.bus.may.manage);
        this.readOnly.hidden = this.bus.may.manage;
        setText(
            this.readOnly,
            _("You look at this without administrative access: what is not yours cannot be changed.")
        );
    }

    signal(path, iface, signal, args) {
        if (signal === "PropertiesChanged" ? this.model.changed(path, args[0], args[1]) : signal !== "Preempted")
            this.stale = true;
        this.later();
    }

    /* Signals come in heaps: they are shown together, with the next picture. */
    later() {
        if (!this.isShown || this.frame)
            return;
        this.frame = window.requestAnimationFrame(() => {
            this.frame = null;
            this.show();
        });
    }

    /* --- one call a second --- */

    turn() {
        const n = this.turns++;

        if (this.stale && n - this.described >= DESCRIBE_EVERY)
            return this.describe(n);
        if (!this.model.history && this.model.samples.length > 0)
            return this.history();
        if (n % MEASURE_EVERY === 0) {
            const measure = this.measure();

            if (measure)
                return measure;
        }
        return this.bus.call("ListStatistics", "t", [0]).then(reply => {
            this.stale ||= this.model.statistics(reply[0], performance.now());
            this.show();
        });
    }

    /* For somebody who has just changed something. */
    refresh() {
        this.describe().catch(error => console.warn("xsched:", problem(error)));
    }

    describe(n = this.turns) {
        this.described = n;
        this.stale = false;
        return this.bus
            .call("Describe", "")
            .then(reply => {
                this.model.describe(reply[0]);
                this.show();
            })
            .catch(error => {
                this.stale = true;
                if (!this.isShown)
                    this.described = -Infinity; /* nothing is shown before it */
                throw error;
            });
    }

    /* What was before the page was opened: first what time it is there, then the last minute. */
    history() {
        const since = this.until === null ? Number.MAX_SAFE_INTEGER : Math.max(1, this.until - SPAN_MS * 1000);

        return this.bus
            .call("GetRecord", "tt", [since, 0])
            .then(reply => {
                if (this.until === null) {
                    this.until = reply[0];
                    return;
                }
                this.model.record(reply, performance.now());
                this.show();
            })
            .catch(error => {
                this.model.history = true;
                throw error;
            });
    }

    /* The service never measures by itself. One device at a time; none where that cannot be done. */
    measure() {
        const all = [...this.model.devices.values()].filter(d => d.id.startsWith("pci:") && !this.unmeasured.has(d.id));

        if (all.length === 0)
            return null;
        const device = all[Math.floor(this.turns / MEASURE_EVERY) % all.length];

        return this.bus
            .call("Measure", "t", [0], this.bus.devicePath(device.id), "org.xsched.Scheduler.Device")
            .then(reply => this.model.measured(device.id, reply[0]))
            .catch(() => this.unmeasured.add(device.id));
    }

    /* --- what is shown --- */

    show() {
        if (!this.bus.client)
            return;
        if (!this.isShown) {
            this.isShown = true;
            order(this.root, this.content);
            this.ready();
        }
        this.degraded.hidden = this.model.degraded.length === 0;
        setText(this.degraded, format(_("Not all is well: $0"), this.model.degraded.join("; ")));
        this.devices.update(this.model);
        this.tree.update(this.model);
        setText(this.version, format("xsched $0", this.model.version));
    }
}

new Page(document.getElementById("page")).start();
