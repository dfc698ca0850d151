/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing a device: its policy, and the parameters of that. */

import { NAME } from "./bus.js";
import { ChangeDialog, NOT_KEPT } from "./change.js";
import { readLayers, restoreLayers } from "./layers.js";
import { _, format } from "./words.js";

const DEVICE = `${NAME}.Device`;
const MS = 1000; /* microseconds, as the bus has them */

const fields = policies => [
    {
        key: "Policy",
        label: _("Policy"),
        type: "s",
        options: policies.map(([name]) => [name, name]),
        hint: value => policies.find(([name]) => name === value)?.[1] || "",
    },
    {
        key: "TimeSliceUSec",
        label: _("Length of a turn"),
        type: "t",
        min: 0.1,
        max: 10000,
        unit: MS,
        hint: _("milliseconds, 0.1 to 10000"),
    },
    {
        key: "Concurrency",
        label: _("Groups that run at once"),
        type: "u",
        min: 1,
        max: 1024,
        hint: _("groups, 1 to 1024"),
    },
];

const more = () => [
    {
        key: "StarveUSec",
        label: _("Every group has a turn after"),
        type: "t",
        min: 1,
        max: 3600000,
        unit: MS,
        hint: _("milliseconds of waiting, 1 to 3600000"),
    },
    {
        key: "StarveRunUSec",
        label: _("Length of such a turn"),
        type: "t",
        min: 0.1,
        max: 10000,
        unit: MS,
        hint: _("milliseconds, 0.1 to 10000"),
    },
    {
        key: "LingerUSec",
        label: _("Kept free for a group that is expected back"),
        type: "t",
        min: 0,
        max: 100,
        unit: MS,
        hint: _("milliseconds at most, 0 to 100"),
    },
    {
        key: "Threshold",
        label: _("Launches in flight while others wait"),
        type: "u",
        min: 1,
        max: 65535,
        hint: _("of each queue, 1 to 65535"),
    },
    {
        key: "Preemption",
        label: _("How far holds reach"),
        type: "s",
        options: [
            ["auto", _("whichever is quicker")],
            ["off", _("not at all")],
            ["1", _("new launches wait")],
            ["2", _("work that has not begun waits, too")],
            ["3", _("running work is stopped, too")],
            ["privileged", _("the service stops it as a whole")],
        ],
    },
    {
        key: "Accounting",
        label: _("Time of a group that is alone"),
        type: "s",
        options: [
            ["auto", _("as the driver counts it, or estimated")],
            ["exact", _("counted exactly")],
            ["sampled", _("estimated from samples")],
            ["off", _("not counted")],
        ],
    },
];

export async function changeDevice(bus, model, id, done) {
    const device = model.devices.get(id);

    if (!device)
        throw new Error(format(_("The device $0 is no longer there."), id));
    const path = bus.devicePath(device.id), target = `device:${device.id}`;
    /* The policy is an argument of its own. */
    const settled = async (flags, { Policy, ...settings }) => {
        const [then] = await bus.call("Preview", "sta{sv}", [Policy?.v || "", flags, settings], path, DEVICE);

        return Object.fromEntries(Object.entries(then).map(([key, value]) => [key, value.v]));
    };
    const read = async () => {
        const [now, layers] = await Promise.all([settled(0, {}), readLayers(bus, target)]);

        return { now, layers };
    };
    const [policies, state] = await Promise.all([bus.call("ListPolicies", ""), read()]);
    const all = [...fields(policies[0]), ...more()];
    const text = (key, value) => {
        const field = all.find(f => f.key === key);

        if (field?.unit === MS)
            return format(_("$0 ms"), value / MS);
        return String(field?.options?.find(([option]) => option === value)?.[1] ?? value);
    };

    return new ChangeDialog(
        {
            name: device.name || device.id,
            title: format(_("Policy of $0"), device.name || device.id),
            fields: all.slice(0, 3),
            more: all.slice(3),
            state,
            read,
            mayStore: model.canStore,
            whyNot: !model.canStore && NOT_KEPT(),
            show: text,
            preview: settled,
            set: (flags, { Policy, ...others }) =>
                bus.call("SetPolicy", "ssta{sv}", [device.id, Policy?.v || "", flags, others]),
            restore: (expected, layers) => restoreLayers(bus, target, expected, layers),
        },
        done
    );
}
