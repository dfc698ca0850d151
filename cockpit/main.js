/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The page: what it is made of, and what it asks of the service each second. */

/* global cockpit */

import { Actions } from "./actions.js";
import { Bus } from "./bus.js";
import { Devices } from "./devices.js";
import { Alerts } from "./dialog.js";
import { button, el, order, replace, setText } from "./dom.js";
import { Histogram } from "./histogram.js";
import { Model, SPAN_MS } from "./model.js";
import { askShares, isAskable } from "./shares.js";
import { Tree } from "./tree.js";
import { tryIt } from "./tryit.js";
import { startService, UNIT, whyNotRunning } from "./unit.js";
import { _, format, isOlder, problem } from "./words.js";

const MEASURE_EVERY = 3; /* turns of those that neither describe nor read the record */
const LATE_MS = 3000;
/* Seconds, in steps: each change of the text is read out. */
const spoken = ms => (ms < 10000 ? LATE_MS / 1000 : Math.floor(ms / 10000) * 10);
const DESCRIBE_EVERY = 2, OF_MANY = 6; /* turns, however often something comes and goes: of few objects, and of many */
const MANY = 200;
const LIMITS_EXCEEDED = "org.freedesktop.DBus.Error.LimitsExceeded";
const NOT_SUPPORTED = "org.freedesktop.DBus.Error.NotSupported";

class Page {
    constructor(root) {
        this.root = root;
        this.model = new Model();
        this.bus = new Bus();
        this.turns = 0;
        this.others = 0; /* of these, those that did not describe */
        this.measured = 0;
        this.unmeasured = new Map(); /* devices that could not be: how often, and until which turn they are left */
        this.alerts = new Alerts();
        this.actions = new Actions(this.bus, this.model, this.alerts, () => this.refresh());
        this.devices = new Devices({
            choose: name => this.tree.choose(name),
            tryIt: () => this.actions.try(tryIt),
            changeDevice: id => this.actions.changeDevice(id),
        });
        this.tree = new Tree({ menu: (key, opener) => this.actions.menu(key, opener) });
        this.degraded = el("div", { class: "alert warning", role: "status", hidden: true });
        this.silent = el("div", { class: "alert warning silent", role: "status", hidden: true });
        this.decisions = new Histogram(
            _("From ready to decided"),
            _("How long the service took to decide after a queue became ready.")
        );
        this.version = el("p", { class: "subtle version" });
        this.readOnly = el("p", { class: "subtle read-only", hidden: true });
        this.content = [
            this.alerts.element,
            this.readOnly,
            this.silent,
            this.degraded,
            this.devices.element,
            this.tree.element,
            el("section", { class: "service", "aria-label": _("Service") }, this.decisions.element, this.version),
        ];
    }

    start() {
        cockpit.translate();
        document.title = _("GPU scheduling");
        document.documentElement.lang = (cockpit.language || "en").replace("_", "-");
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
        this.since = null;
        this.sharesOf = null;
        this.failures = 0;
        this.older = null;
        this.unmeasured.clear();
        this.isShown = false;
    }

    gone() {
        const failed = el("p", { class: "error", role: "alert" });
        const journal = button(
            _("Journal of the service"),
            () => cockpit.jump(`/system/logs#/?priority=debug&service=${UNIT}`),
            { class: "button plain journal", hidden: true }
        );
        const tell = error => {
            setText(failed, problem(error));
            journal.hidden = false;
        };
        const start = button(
            _("Start the service"),
            () => {
                start.disabled = true;
                setText(failed, "");
                startService()
                    .catch(error => tell({ message: format(_("It could not be started: $0"), problem(error)) }))
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
            failed,
            el("div", { class: "buttons" }, start, journal)
        );
        /* It may have failed by itself. */
        whyNotRunning().then(why => why && failed.isConnected && !failed.textContent && tell({ message: why }));
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
            : ms > LATE_MS && format(_("The service has not answered for $0 seconds."), spoken(ms));

        this.silent.hidden = !text;
        if (text && this.isShown)
            setText(this.silent, `${text} ${_("The page shows the last known state.")}`);
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
            _("Without administrative access you can change only what is your own.")
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

    /* What comes and goes is looked at first. Of the others, every second one reads the record, which has all that was;
     * in between it is what there is to ask. */
    turn() {
        const n = this.turns++, isMany = this.model.clients.size + this.model.groups.size > MANY;

        if (!this.isShown || (this.stale && n - this.described >= (isMany ? OF_MANY : DESCRIBE_EVERY)))
            return this.describe(n); /* nothing is shown before it */
        const k = this.others++, j = Math.floor(k / 2);

        if (k % 2 === 0 || this.model.until === null)
            return this.record();
        /* While programs come and go there are other shares each time: not more than every second of these turns. */
        return (
            (j % 2 === 0 && this.shares()) || (j % MEASURE_EVERY === 1 && this.measure()) || this.statistics()
        );
    }

    statistics() {
        return this.bus.call("ListStatistics", "t", [0]).then(reply => {
            this.stale ||= this.model.statistics(reply[0]);
            this.show();
        });
    }

    /* First what time it is there, then the last minute, then what has come since. */
    record() {
        const since = this.since ?? Number.MAX_SAFE_INTEGER;

        return this.bus.call("GetRecord", "tt", [since, 0]).then(reply => {
            if (this.since === null) {
                this.since = Math.max(1, reply[0] - SPAN_MS * 1000);
                return;
            }
            this.model.record(reply);
            this.since = reply[0];
            this.show();
        });
    }

    /* Where others want a device than did, or settings have changed; else nothing. */
    shares() {
        const wanting = this.model.wanting(), of = JSON.stringify([this.model.changes, wanting]);

        if (of === this.sharesOf)
            return null;
        this.sharesOf = of;
        if (!isAskable(wanting)) {
            this.model.shares([]);
            return null;
        }
        return askShares(this.bus, wanting)
            .catch(error => {
                if (error.name === LIMITS_EXCEEDED)
                    return [];
                if (isOlder(error))
                    this.older = problem(error);
                else
                    this.sharesOf = null; /* once more */
                throw error;
            })
            .then(list => {
                this.model.shares(list);
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

    /* The service never measures by itself. One device at a time; none where that cannot be done. What has failed may
     * work later: it is tried again, less and less often. */
    measure() {
        const all = [...this.model.devices.values()].filter(
            d => d.id.startsWith("pci:") && !((this.unmeasured.get(d.id)?.until ?? 0) > this.turns)
        );

        if (all.length === 0)
            return null;
        const { id } = all[this.measured++ % all.length], times = this.unmeasured.get(id)?.times ?? 0;

        return this.bus
            .call("Measure", "t", [0], this.bus.devicePath(id), "org.xsched.Scheduler.Device")
            .then(reply => {
                this.unmeasured.delete(id);
                this.model.measured(id, reply[0]);
            })
            .catch(error =>
                this.unmeasured.set(id, {
                    times: times + 1,
                    until: error.name === NOT_SUPPORTED ? Infinity : this.turns + Math.min(300, 3 << times),
                })
            );
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
        const ills = [...this.model.degraded, ...(this.older ? [this.older] : [])];

        if (this.model.isCut())
            ills.push(_("too many groups are active: shares are shown of the busiest only"));

        this.degraded.hidden = ills.length === 0;
        setText(this.degraded, format(_("Not everything works as configured: $0"), ills.join("; ")));
        this.devices.update(this.model);
        this.tree.update(this.model);
        setText(this.version, format("xsched $0", this.model.version));
        if (this.model.decisions)
            this.decisions.update(this.model.decisions, this.model.end());
    }
}

new Page(document.getElementById("page")).start();
