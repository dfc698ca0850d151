/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The chain of a group's or a process's settings, as ExplainObject tells it: what holds and what was set. Pure but for
 * words.
 */

import { _, format } from "./words.js";

export const NAMES = {
    Class: () => _("Class"),
    Priority: () => _("Priority"),
    Weight: () => _("Weight"),
    Max: () => _("Max"),
    Min: () => _("Min"),
};

const MEANINGS = {
    Class: () => _("A name for a set of settings."),
    Priority: () => _("The group with the higher priority always runs first; only equals share."),
    Weight: () => _("Among equals beside each other, the one with twice the weight gets twice the time."),
    Max: () => _("It gets no more of a device's time than this, even if nobody else wants it."),
    Min: () => _("It gets at least this much of a device's time while it has work, whatever the priorities."),
    Threshold: () => _("How many launches may be in flight while others wait; 0 is the device's number."),
    Preemption: () => _("How far it may be stopped while others run."),
    Gang: () => _("Whether it is held and released on all its devices together."),
    Deadline: () => _("How soon its work is to be done, in microseconds; 0 is no deadline."),
    Laxity: () => _("How long it may wait before its priority rises, in microseconds; 0 is for ever."),
    Critical: () => _("The priority that it has after that."),
    Utilization: () => _("Its part of the time, for policies with fixed parts."),
    Active: () => _("Whether a person is looking at it."),
    Period: () => _("The time that Max and Min are percent of, in microseconds."),
    Accounting: () => _("How its time is counted while no other group competes with it."),
};

export const meaning = key => (MEANINGS[key] ? MEANINGS[key]() : "");

const LINE = /^(\w+): (lowered: |lowers nothing: |lowers by what it says: |)(.*)$/s;

/*
 * key -> lines { source, lowers, why, value }, the one that holds first. `lowers`: undefined where the line decides;
 * otherwise whether it lowers what is decided. A class that only lowers is none: what it lowers has lines of its own.
 */
export function readChain(chain) {
    const keys = new Map();

    for (const [source, detail, value] of chain) {
        const [, key, how, why] = LINE.exec(detail) || [null, detail, "", ""];

        if (how === "lowers by what it says: ")
            continue;
        if (!keys.has(key))
            keys.set(key, []);
        keys.get(key).push({ source, lowers: how ? how === "lowered: " : undefined, why, value: value.v });
    }
    return keys;
}

export const holds = (keys, key) => keys.get(key)?.[0]?.value;
/* Whether nobody has asked for anything else. */
export const isBuiltIn = ([line, ...others]) =>
    others.length === 0 && line.source === "default" && line.why === "built in";

const SENTENCES = [
    ["override", /^set until the next boot for (.*)$/s, () => _("set for $0 until the next boot")],
    ["override", /^stored for (.*)$/s, () => _("set for $0 for good")],
    ["override", /^by class (.*)$/s, () => _("by class $0, which was set for it")],
    ["override", /^set for (.*)$/s, () => _("set for $0")],
    ["default", /^by class (.*)$/s, () => _("by class $0, because no other is set")],
    ["default", /^/, () => _("built in, because it is not set anywhere")],
    ["slice", /^inherited from (.*)$/s, () => _("inherited from $0")],
    ["unit-file", /^by \[X-XSched\] in (.*)$/s, () => _("written in the unit file $0")],
    ["unit", /^by a property of (.*)$/s, () => _("a property of the unit $0")],
    ["attribute", /^by user\.xsched\.\* of (.*)$/s, () => _("set by an attribute of its cgroup $0")],
    ["job", /^set with (.*)$/s, () => _("set with $0, which it was started in")],
    ["hold", /^/, () => _("held by a program for as long as it asks for it")],
    ["class", /^by \[Match\] in (.*)$/s, () => _("because it matches $0")],
];

/* The same of what lowers. */
const LOWERING = [
    ["attribute", /^by user\.xsched\.\* of (.*)$/s, () => _("lowered by its owner, by an attribute of its cgroup $0")],
    ["user-unit", /^by the user's unit (.*)$/s, () => _("lowered by the user's unit $0")],
    ["slice", /^inherited from (.*)$/s, () => _("lowered with $0, which it is in")],
    ["job", /^set with (.*)$/s, () => _("lowered with $0, which it was started in")],
    ["hold", /^held/, () => _("lowered by a program for as long as it asks for it")],
    ["class", /^by \[Match\] in (.*)$/s, () => _("lowered because it matches $0")],
    ["wish", /^wished/, () => _("lowered by the process itself")],
    ["owner", /^set by the owner for (.*)$/s, () => _("lowered by its owner for $0")],
];

export function sentence({ source, lowers, why }) {
    const named = /^by class (.*)$/s.exec(why);

    for (const [from, pattern, text] of lowers === undefined ? SENTENCES : LOWERING) {
        const match = from === source && pattern.exec(why);

        if (match)
            return format(text(), match[1] || "");
    }
    if (named)
        return format(lowers === undefined ? _("by class $0") : _("lowered by class $0"), named[1]);
    return why || source;
}

export function show(key, value) {
    if (value === undefined || value === "")
        return "–";
    if (key === "Max" || key === "Min")
        return value ? `${value} %` : _("none");
    if (typeof value === "boolean")
        return value ? _("yes") : _("no");
    return String(value);
}
