/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is known of the service: devices, groups, processes and queues, and what the last minute was spent on. Pure: no
 * page and no bus. Times of samples are milliseconds of performance.now(), parts of the time are 0 to 1.
 */

export const SPAN_MS = 60000;
const RECENT_MS = 5000;
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
        this.counters = null;
        this.history = false;
    }

    /* --- everything at once --- */

    describe(text) {
        const all = JSON.parse(text);
        const kept = this.groups;

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
    statistics(list, now) {
        const counters = { now, devices: new Map(), groups: new Map() }, named = new Set();
        let stale = false;

        for (const group of this.groups.values())
            group.held = [];
        for (const [kind, name, device, values] of list) {
            const get = key => values[key]?.v;

            if (kind === "device") {
                const known = this.devices.get(device);

                counters.devices.set(device, { busy: get("BusyUSec"), kept: get("KeptUSec") });
                stale ||= !known;
                if (known) {
                    known.ready = get("NReady");
                    known.entities = get("NEntities");
                    this.measured(device, get("Metrics") || {});
                }
            } else if (kind === "group") {
                counters.groups.set(`${device}\n${name}`, {
                    name,
                    device,
                    run: get("RunUSec"),
                    wait: get("WaitUSec"),
                    kept: get("KeptUSec"),
                });
                named.add(name);
                stale ||= !this.groups.has(name);
                this.tell(name, device, get);
            } else if (kind === "service") {
                this.degraded = get("Degraded") || [];
                stale ||= get("NClients") !== this.clients.size || get("NQueues") !== this.queues.size;
            }
        }
        this.sample(counters);
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

        if (known && Object.keys(metrics).length > 0)
            known.metrics = Object.fromEntries(Object.entries(metrics).map(([key, value]) => [key, value.v]));
    }

    sample(counters) {
        const before = this.counters;

        this.counters = counters;
        if (!before || counters.now <= before.now)
            return;
        const usec = (counters.now - before.now) * 1000;
        const sample = { begin: before.now, end: counters.now, devices: new Map() };

        for (const [id, d] of counters.devices) {
            const was = before.devices.get(id) || d;

            sample.devices.set(id, {
                busy: ratio(d.busy - was.busy, usec),
                kept: ratio(d.kept - was.kept, usec),
                groups: new Map(),
            });
        }
        for (const [key, g] of counters.groups) {
            const was = before.groups.get(key) || { run: 0, wait: 0 };
            const run = (g.run - was.run) / usec, wait = (g.wait - was.wait) / usec;

            if (run > 0 || wait > 0)
                sample.devices.get(g.device)?.groups.set(g.name, { run: Math.max(0, run), wait: Math.max(0, wait) });
        }
        sample.devices.forEach(d => share(d.groups, d.busy));
        this.add(sample);
    }

    add(sample) {
        this.samples.push(sample);
        this.samples = this.samples.filter(s => s.end > this.samples.at(-1).end - SPAN_MS - RECENT_MS);
    }

    /* GetRecord: what was before the page was opened. Its clock is the host's: `until` is what it says at `now`. */
    record([until, frames, names], now) {
        const at = usec => now - (until - usec) / 1000;
        const first = this.samples.length > 0 ? this.samples[0].begin : Infinity;
        const earlier = [];

        for (const [begin, end, devices] of frames) {
            const usec = end - begin;
            const sample = { begin: at(begin), end: Math.min(at(end), first), devices: new Map() };

            if (sample.begin >= sample.end)
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
            earlier.push(sample);
        }
        this.samples = [...earlier, ...this.samples];
        this.history = true;
    }

    /* --- what follows --- */

    /* What each group had of a device in the last seconds: its name -> { run, wait }. */
    recent(id, ms = RECENT_MS) {
        const groups = new Map(), last = this.samples.at(-1);

        if (!last)
            return groups;
        const begin = Math.max(last.end - ms, this.samples[0].begin), whole = last.end - begin;

        for (const s of this.samples) {
            const part = (s.end - Math.max(s.begin, begin)) / whole;

            if (part <= 0)
                continue;
            for (const [name, g] of s.devices.get(id)?.groups || []) {
                const sum = groups.get(name) || { run: 0, wait: 0 };

                groups.set(name, { run: sum.run + g.run * part, wait: sum.wait + g.wait * part });
            }
        }
        return groups;
    }

    busy(id) {
        const last = this.samples.at(-1)?.devices.get(id);

        return last ? last.busy : 0;
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
