/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing a group: its class, priority, weight, maximum and minimum. */

import { NAME } from "./bus.js";
import { holds, NAMES, readChain, show, storedName } from "./chain.js";
import { ChangeDialog, setBefore } from "./change.js";
import { sharesAsked } from "./shares.js";
import { _, format, percent, shortName } from "./words.js";

const GROUP = `${NAME}.Group`;
const NUMBERS = [
    ["Priority", "i", -255, 255, () => _("-255 to 255; the higher runs first")],
    ["Weight", "u", 1, 10000, () => _("1 to 10000; 100 is usual")],
    ["Max", "u", 0, 10000, () => _("percent; 0 is no limit")],
    ["Min", "u", 0, 100, () => _("percent; 0 is no guarantee")],
];

/* What is changed of a scope or a job ends with it, whatever is asked for: its name does not come again. */
const isStorable = name => !name.startsWith("job:") && !name.includes(".scope");

export class GroupChange {
    /* `owner`: who may only lower what is his. */
    constructor(bus, model, name, owner) {
        Object.assign(this, { bus, model, name, owner });
    }

    call(method, flags, settings) {
        return this.bus.call(method, "ta{sv}", [flags, settings], this.bus.groupPath(this.name), GROUP);
    }

    async chain() {
        return readChain((await this.bus.call("ExplainObject", "o", [this.bus.groupPath(this.name)]))[0]);
    }

    inForce(keys) {
        return Object.fromEntries(Object.keys(NAMES).map(key => [key, holds(keys, key)]));
    }

    async open(done) {
        const [keys, classes, settings] = await Promise.all([
            this.chain(),
            this.bus.call("ListClasses", ""),
            this.bus.call("ListSettings", ""),
        ]);
        const stored = storedName(keys), storable = isStorable(this.name);
        const fields = [
            {
                key: "Class",
                label: NAMES.Class(),
                type: "s",
                options: classes[0].map(([name]) => [name, name]),
                hint: value => classes[0].find(([name]) => name === value)?.[1] || "",
            },
            ...NUMBERS.map(([key, type, min, max, hint]) => ({
                key, label: NAMES[key](), type, min, max, hint: hint(),
            })),
        ];

        return new ChangeDialog(
            {
                name: shortName(this.name),
                title: format(_("Change $0"), shortName(this.name)),
                note: this.owner && _("It is yours: you can lower what it has, and take that back."),
                fields,
                now: this.inForce(keys),
                before: setBefore(settings, { runtime: this.name, owner: this.name, stored }),
                mayStore: storable && !this.owner,
                ownOnly: this.owner,
                whyNot: !storable && _("Nothing is kept for scopes and jobs: what is set ends with them."),
                show,
                preview: async (flags, edits) => {
                    const [then] = await this.call("Preview", flags, edits);

                    return Object.fromEntries(Object.entries(then).map(([key, value]) => [key, value.v]));
                },
                lines: then => this.shareLines(then),
                set: (flags, edits) => this.call("Set", flags, edits),
                after: async () => this.inForce(await this.chain()),
            },
            done
        );
    }

    /* On each device: what it is to get while all that wanted the device in the last minute still do. */
    shareLines(then) {
        const lines = [];

        for (const device of this.model.devices.values()) {
            const wanting = new Set(this.model.recent(device.id, 60000).keys());
            const wants = [...wanting].some(n => this.model.isWithin(n, this.name));

            if (device.policy !== "tree" || !(wants || this.hasQueue(device.id)))
                continue;
            if (!wants)
                wanting.add(this.name);
            const asked = change => sharesAsked(this.model.groups, [...wanting], change).get(this.name);
            const before = asked(null), after = asked({ ...then, name: this.name });

            if (before !== undefined && after !== undefined)
                lines.push([format(_("Share of $0"), device.name || device.id), percent(before), percent(after)]);
        }
        return lines;
    }

    hasQueue(device) {
        return [...this.model.queues.values()].some(
            q => q.device === device && this.model.isWithin(this.model.clients.get(q.client)?.group, this.name)
        );
    }
}
