/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Numbers and reasons as people read them, in the person's language. */

/* global cockpit */

const _ = cockpit.gettext;

export { _ };

export const format = (text, ...values) => cockpit.format(text, ...values);

const numbers = [0, 1].map(
    digits =>
        new Intl.NumberFormat(cockpit.language?.replace("_", "-") || "en", {
            maximumFractionDigits: digits,
            minimumFractionDigits: digits,
        })
);
const number = (value, digits) => numbers[digits].format(value);

export function percent(part) {
    return `${number(part * 100, part > 0 && part < 0.0995 ? 1 : 0)} %`;
}

export function span(usec) {
    if (usec < 1000)
        return `${number(usec, 0)} µs`;
    if (usec < 1e6)
        return `${number(usec / 1000, usec < 1e4 ? 1 : 0)} ms`;
    if (usec < 60e6)
        return `${number(usec / 1e6, usec < 1e7 ? 1 : 0)} s`;
    if (usec < 3600e6)
        return `${number(usec / 60e6, 0)} min`;
    return `${number(usec / 3600e6, 1)} h`;
}

export function bytes(value) {
    return value >= 1 << 30 ? `${number(value / (1 << 30), 1)} GiB` : `${number(value / (1 << 20), 0)} MiB`;
}

export const degrees = value => `${number(value, 0)} °C`;
export const watts = value => `${number(value, 0)} W`;

/* The last part of a path, or the name of a job. */
export function shortName(name) {
    const job = /^job:(\d+):(.*)$/s.exec(name);

    if (job)
        return format(_("job $0: $1"), job[1], job[2]);
    return name === "/" ? "/" : name.slice(name.lastIndexOf("/") + 1);
}

/* Where a name has to say which group is meant: a user may call a cgroup as a unit of the system is called. */
export function distinctName(group) {
    const { name, Unit } = group || { name: "" };
    const isOfSystem = /^(\/[^/]+\.slice)+$/.test(name) || (Unit && /^(\/[^/]+\.slice)*\/[^/]+$/.test(name));

    return isOfSystem || !name.startsWith("/") ? shortName(name) : name;
}

/* What kind of thing a group is: a word, and which one. */
export function kindOf(group) {
    if (group.SlurmJob)
        return [_("Slurm job"), group.SlurmJob];
    if (group.Pod)
        return [_("pod"), group.Pod];
    if (group.Container) {
        const [engine, id] = group.Container.split(/:(.*)/s);

        return [_("container"), `${engine} ${(id || "").slice(0, 12)}`];
    }
    if (group.Kind === "job")
        return [_("job"), ""];
    if (group.name.endsWith(".slice"))
        return [_("slice"), ""];
    return group.Unit && group.name.endsWith(`/${group.Unit}`) ? [_("unit"), ""] : [_("cgroup"), ""];
}

const REASONS = {
    suspended: () => _("suspended"),
    stopped: () => _("its process is stopped or frozen"),
    max: () => _("its limit is used up"),
    priority: () => _("a higher priority runs"),
    share: () => _("it is another group's turn"),
    gang: () => _("waits for another of its devices"),
    expected: () => _("the device is kept for a group that is expected back at once"),
};

export function reason(name) {
    return REASONS[name] ? REASONS[name]() : name;
}

/* What a group does: a word that stands for its state in the style sheet, and a sentence. `run`: null if not known. */
export function stateOf(group, run) {
    if (group.Suspended)
        return group.SuspendedBy && group.SuspendedBy !== group.name
            ? ["suspended", format(_("suspended with $0"), shortName(group.SuspendedBy))]
            : ["suspended", _("suspended")];
    if (group.held.length > 0) {
        const longest = group.held.reduce((a, b) => (b.usec > a.usec ? b : a));
        const why = reason(longest.reason);

        return ["waits", longest.usec > 0 ? format(_("$0: $1"), span(longest.usec), why) : why];
    }
    if (run === null)
        return ["idle", _("unknown: too many groups are active")];
    return run > 0 ? ["runs", _("runs")] : ["idle", _("idle")];
}

const OLDER = /\.Error\.(UnknownMethod|UnknownProperty|UnknownInterface)$/;

export const isOlder = error => OLDER.test(error.name);

export function problem(error) {
    if (isOlder(error))
        return _("The running service is older than this page: restart xsched.service, or update xsched.");
    if (/\.Error\.(UnknownObject|NoSuchGroup|NoSuchDevice|NoSuchClient)$/.test(error.name))
        return _("It is no longer there.");
    return error.message || error.problem || String(error);
}
