/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Changing a group: its class, priority, weight, maximum and minimum. */

import { NAME } from "./bus.js";
import { holds, NAMES, readChain, show } from "./chain.js";
import { ChangeDialog, NOT_KEPT } from "./change.js";
import { readLayers, restoreLayers } from "./layers.js";
import { askShares, isAskable } from "./shares.js";
import { _, distinctName, format, percent } from "./words.js";

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

    /* What is in force, and what was set. */
    async read() {
        const [chain, layers] = await Promise.all([
            this.bus.call("ExplainObject", "o", [this.bus.groupPath(this.name)]),
            readLayers(this.bus, this.name),
        ]);
        const keys = readChain(chain[0]);

        return { now: Object.fromEntries(Object.keys(NAMES).map(key => [key, holds(keys, key)])), layers };
    }

    async open(done) {
        const [state, classes] = await Promise.all([this.read(), this.bus.call("ListClasses", "")]);
        const ends = !isStorable(this.name), { canStore } = this.model;
        const shown = distinctName(this.model.groups.get(this.name) || { name: this.name });
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
                name: shown,
                title: format(_("Change $0"), shown),
                note: this.owner && _("This is your own: you can lower its settings, and undo that."),
                fields,
                state,
                read: () => this.read(),
                mayStore: canStore && !ends && !this.owner,
                ownOnly: this.owner,
                whyNot: ends ? _("Settings of scopes and jobs end with them.")
                    : !canStore && NOT_KEPT(),
                show,
                preview: async (flags, edits) => {
                    const [then] = await this.call("Preview", flags, edits);

                    return Object.fromEntries(Object.entries(then).map(([key, value]) => [key, value.v]));
                },
                lines: (flags, edits) => this.shareLines(flags, edits),
                set: (flags, edits) => this.call("Set", flags, edits),
                restore: (expected, layers) => restoreLayers(this.bus, this.name, expected, layers),
            },
            done
        );
    }

    /* On each device: what it is to get while all that wanted the device in the last minute still do. */
    async shareLines(flags, edits) {
        const { bus, model, name } = this, isHere = n => model.isWithin(n, name), wanting = [];

        for (const [device, names] of model.wanting(60000))
            if (names.some(isHere))
                wanting.push([device, names]);
            else if (this.hasQueue(device))
                wanting.push([device, [...names, name]]);
        if (!isAskable(wanting))
            return [];
        const changes = [["", 0, {}], [name, flags, edits]];
        const replies = await Promise.all(changes.map(change => askShares(bus, wanting, ...change)));
        const [before, after] = replies.map(
            list => new Map(list.filter(([, group]) => group === name).map(([device, , part]) => [device, part]))
        );

        return [...before].map(([id, part]) => [
            format(_("Share of $0"), model.devices.get(id)?.name || id),
            percent(part),
            percent(after.get(id) ?? 0),
        ]);
    }

    hasQueue(device) {
        return [...this.model.queues.values()].some(
            q => q.device === device && this.model.isWithin(this.model.clients.get(q.client)?.group, this.name)
        );
    }
}
