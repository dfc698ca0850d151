/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is known of the service: devices, groups, processes and queues, and what the last minute was spent on. Pure: no
 * page and no bus. What was spent comes from the service's record, which misses nothing, however seldom it is read.
 * Times of samples are milliseconds of the service's clock, parts of the time are 0 to 1.
 */

import { isTooMany } from "./shares.js";

export const SPAN_MS = 60000;
const RECENT_MS = 5000;
const MEASURED_USEC = 30e6; /* what was measured longer ago is not shown as what is; the more devices, the seldomer */
const GROUP_KEYS = {
    class: "Class",
    priority: "Priority",
    weight: "Weight",
    max: "Max",
    min: "Min",
    parent: "Parent",
    source: "PolicySource",
    suspended: "Suspended",
    suspended_by: "SuspendedBy",
    kind: "Kind",
    unit: "Unit",
    container: "Container",
    pod: "Pod",
    slurm_job: "SlurmJob",
    clients: "NClients",
    period_usec: "Period",
};

/* Of an object's path: what is no letter or digit is _XX. */
function unescape(name) {
    const bytes = [];

    for (let i = 0; i < name.length; i++)
        if (name[i] === "_") {
            bytes.push(parseInt(name.slice(i + 1, i + 3), 16));
            i += 2;
        } else {
            bytes.push(name.charCodeAt(i));
        }
    return new TextDecoder().decode(new Uint8Array(bytes));
}

/* Several that ran at once share the time that the device was in use, as pictures and tables show it. */
function share(groups, busy) {
    const all = [...groups.values()].reduce((sum, g) => sum + g.run, 0);

    if (all > busy)
        groups.forEach(g => (g.run *= busy / all));
}

const ratio = (part, whole) => (whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0);

export class Model {
    constructor() {
        this.clear();
    }

    clear() {
        this.version = "";
        this.degraded = [];
        this.canStore = false;
        this.devices = new Map();
        this.groups = new Map();
        this.clients = new Map();
        this.queues = new Map();
        this.samples = [];
        this.until = null; /* of the record, as the service has it */
        this.decisions = null;
        this.asked = new Map();
        this.changes = 0; /* of what shares are divided by */
    }

    /* --- everything at once --- */

    describe(text) {
        const all = JSON.parse(text);
        const kept = this.groups;

        this.changes++;
        this.version = all.version;
        this.degraded = all.degraded;
        this.canStore = all.can_store;
        this.devices = new Map(
            all.devices.map(d => [d.id, { ...d, metrics: this.devices.get(d.id)?.metrics || {} }])
        );
        this.groups = new Map();
        for (const g of all.groups) {
            const group = { name: g.name, held: kept.get(g.name)?.held || [] };

            for (const [from, to] of Object.entries(GROUP_KEYS))
                group[to] = g[from];
            this.groups.set(g.name, group);
        }
        this.clients = new Map(all.clients.map(c => [c.id, c]));
        this.queues = new Map(all.queues.map(q => [q.id, q]));
    }

    /* --- what is told by itself --- */

    /* Whether all has to be read anew. */
    changed(path, iface, values) {
        const [kind, name] = path.split("/").slice(4);

        this.changes += kind === "group" || kind === "device";
        if (kind === "group") {
            const group = this.groups.get(unescape(name));

            if (group)
                Object.entries(values).forEach(([key, value]) => (group[key] = value.v));
            return !group;
        }
        if (kind === "device") {
            const keys = { Policy: "policy", Concurrency: "concurrency", TimeSliceUSec: "timeslice_usec" };
            const device = this.devices.get(unescape(name));

            for (const [key, value] of Object.entries(values))
                if (device && keys[key])
                    device[keys[key]] = value.v;
            return !device;
        }
        if (!kind && values.Degraded)
            this.degraded = values.Degraded.v;
        return kind === "client" || kind === "queue";
    }

    /* --- counters --- */

    /* ListStatistics. Whether it names what is not known yet, or no more. */
    statistics(list) {
        let stale = false;

        for (const group of this.groups.values())
            group.held = [];
        for (const [kind, name, device, values] of list) {
            const get = key => values[key]?.v;

            if (kind === "device") {
                const known = this.devices.get(device);

                stale ||= !known;
                if (known) {
                    known.ready = get("NReady");
                    known.entities = get("NEntities");
                    known.readyToRun = get("ReadyToRunHistogram");
                    this.measured(device, get("Metrics") || {});
                }
            } else if (kind === "group") {
                stale ||= !this.groups.has(name);
                this.tell(name, device, get);
            } else if (kind === "service") {
                this.degraded = get("Degraded") || [];
                this.decisions = get("DecisionHistogram");
                stale ||= get("NClients") !== this.clients.size || get("NQueues") !== this.queues.size;
            }
        }
        return stale;
    }

    tell(name, device, get) {
        const group = this.groups.get(name);

        if (!group)
            return;
        for (const key of ["Class", "Priority", "Weight", "NClients"])
            group[key] = get(key);
        if (get("NHeld") > 0)
            group.held.push({ device, reason: get("HeldReason"), usec: get("HeldUSec") });
    }

    measured(device, metrics) {
        const known = this.devices.get(device);

        if (known)
            known.metrics = Object.fromEntries(Object.entries(metrics).map(([key, value]) => [key, value.v]));
    }

    /* --- the last minute --- */

    /* GetRecord: what is known already is passed over. */
    record([until, frames, names]) {
        const known = this.until ?? 0;

        for (const [begin, end, devices] of frames) {
            const usec = end - begin;
            const sample = { begin: begin / 1000, end: end / 1000, devices: new Map() };

            if (end <= known || usec <= 0)
                continue;
            for (const [id, busy, kept, , groups] of devices)
                sample.devices.set(id, {
                    busy: ratio(busy, usec),
                    kept: ratio(kept, usec),
                    groups: new Map(
                        groups.map(([place, run, , wait]) => [names[place], { run: run / usec, wait: wait / usec }])
                    ),
                });
            sample.devices.forEach(d => share(d.groups, d.busy));
            this.samples.push(sample);
        }
        this.until = until;
        this.samples = this.samples.filter(s => s.end > this.end() - SPAN_MS - RECENT_MS);
    }

    /* What the driver said of a device, if that was of late. */
    metrics(device) {
        const { MeasuredUSec } = device.metrics;

        const ago = (this.until ?? 0) - MeasuredUSec;

        return ago < MEASURED_USEC * (1 + this.devices.size / 2) ? device.metrics : {};
    }

    /* Where the record ends, in milliseconds: of a time in which nothing ran it has no sample. */
    end() {
        return (this.until ?? 0) / 1000;
    }

    /* --- what is asked for --- */

    /* Who wants each device: who did in the last seconds. As ListShares takes it. */
    wanting(ms = RECENT_MS) {
        const named = id => [...this.recent(id, ms).keys()].filter(Boolean).sort();

        return [...this.devices.keys()].map(id => [id, named(id)]);
    }

    /* ListShares: of all devices, what of each a group is to get is added up. */
    shares(list) {
        this.asked = new Map();
        for (const [, name, part] of list)
            this.asked.set(name, (this.asked.get(name) || 0) + part);
    }

    /* --- what follows --- */

    /* What each group had of a device in the last seconds: its name, "" for those without, -> { run, wait }. */
    recent(id, ms = RECENT_MS) {
        const groups = new Map(), begin = this.end() - ms;

        for (const s of this.samples) {
            const part = (s.end - Math.max(s.begin, begin)) / ms;

            if (part <= 0)
                continue;
            for (const [name, g] of s.devices.get(id)?.groups || []) {
                const sum = groups.get(name) || { run: 0, wait: 0 };

                groups.set(name, { run: sum.run + g.run * part, wait: sum.wait + g.wait * part });
            }
        }
        return groups;
    }

    /* Whether more groups are at work than the record, or one call for shares, tells apart. */
    isCut() {
        return [...this.devices.keys()].some(id => this.recent(id).has("")) || isTooMany(this.wanting());
    }

    busy(id, ms = 2000) {
        const begin = this.end() - ms;

        return this.samples.reduce(
            (sum, s) => sum + (Math.max(0, s.end - Math.max(s.begin, begin)) / ms) * (s.devices.get(id)?.busy || 0),
            0
        );
    }

    /* Whether the first is the second, or below it. */
    isWithin(name, above) {
        for (let g = name, n = 0; g && n < 64; g = this.groups.get(g)?.Parent, n++)
            if (g === above)
                return true;
        return false;
    }

    /* Its processes, and those below it. */
    processesWithin(name) {
        return [...this.clients.values()].filter(c => this.isWithin(c.group, name));
    }

    /* The groups below a group, in the order of their names; of "" those that have nothing above. */
    children() {
        const below = new Map();

        for (const g of this.groups.values()) {
            const parent = g.Parent && this.groups.has(g.Parent) && g.Parent !== g.name ? g.Parent : "";

            below.set(parent, [...(below.get(parent) || []), g]);
        }
        for (const list of below.values())
            list.sort((a, b) => (a.name < b.name ? -1 : 1));
        return below;
    }
}
