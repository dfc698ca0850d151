/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What can be done with a group or a process of the tree, by whom: everything else is read-only, and says why. */

/* global cockpit */

import { NAME } from "./bus.js";
import { Change } from "./change.js";
import { openDialog, openMenu } from "./dialog.js";
import { el } from "./dom.js";
import { explain } from "./explain.js";
import { _, format, problem, shortName } from "./words.js";

export class Actions {
    /* `refresh()`: what was done is to be seen at once. */
    constructor(bus, model, alerts, refresh) {
        Object.assign(this, { bus, model, alerts, refresh, uid: null });
        cockpit.user().then(user => (this.uid = user.id));
    }

    done(text, undo) {
        if (text)
            this.alerts.say(text, "", undo);
        this.refresh();
    }

    /* Whether all processes of the group and below it are the person's, as the service asks for it. */
    isOwn(name) {
        const within = group => {
            for (let g = group, n = 0; g && n < 64; g = this.model.groups.get(g)?.Parent, n++)
                if (g === name)
                    return true;
            return false;
        };
        const inside = [...this.model.clients.values()].filter(c => within(c.group));

        return inside.length > 0 && inside.every(c => c.uid === this.uid);
    }

    /* Of a click: errors are told where everything is told. */
    try(work) {
        return Promise.resolve()
            .then(work)
            .catch(error => this.alerts.say(problem(error), "danger"));
    }

    /* As soon as it is known what the person may. */
    menu(key, opener) {
        this.bus.permissions.then(() => this.open(key, opener));
    }

    open(key, opener) {
        const [kind, name] = /^(\w+):(.*)$/s.exec(key).slice(1);

        const group = kind === "group" && this.model.groups.get(name);
        const client = kind === "client" && this.model.clients.get(Number(name));

        if (group)
            this.groupMenu(group, opener);
        else if (client)
            this.clientMenu(client, opener);
    }

    groupMenu(group, opener) {
        const may = this.bus.may, name = group.name, short = shortName(name);
        const needs = _("needs administrative access"), owner = !may.manage && may["manage-own"] && this.isOwn(name);
        const path = this.bus.groupPath(name), above = group.Suspended && group.SuspendedBy !== name;
        const unit = encodeURIComponent(group.Unit || (name.endsWith(".slice") ? short : ""));
        const ofUser = /\/user@\d+\.service\//.test(name);

        openMenu(opener, format(_("Actions for $0"), short), [
            may.manage || owner
                ? [_("Change…"), () => this.try(() => this.change(name, owner))]
                : [_("Change…"), null, needs],
            group.Suspended
                ? above
                    ? [_("Resume"), null, format(_("suspended with $0"), shortName(group.SuspendedBy))]
                    : [_("Resume"), may.suspend ? () => this.resume(path, short) : null, !may.suspend && needs]
                : [_("Suspend…"), may.suspend ? () => this.suspend(name, path, short) : null, !may.suspend && needs],
            [_("Explain"), () => this.try(() => explain(this.bus, path, "Group", short, name))],
            ...(unit && !ofUser
                ? [
                      [_("Unit in Services"), () => cockpit.jump(`/system/services#/${unit}`)],
                      [_("Journal"), () => cockpit.jump(`/system/logs#/?priority=debug&service=${unit}`)],
                  ]
                : []),
        ]);
    }

    clientMenu(client, opener) {
        const title = format(_("$0, process $1"), client.command, client.pid);
        const path = `/org/xsched/Scheduler/client/${client.id}`;

        openMenu(opener, format(_("Actions for $0"), title), [
            [_("Explain"), () => this.try(() => explain(this.bus, path, "Client", title, `client:${client.id}`))],
        ]);
    }

    change(name, owner) {
        return new Change(this.bus, this.model, name, owner, (text, undo) => this.done(text, undo)).open();
    }

    suspend(name, path, short) {
        const below = [...this.model.clients.values()].filter(c => c.group === name || c.group.startsWith(`${name}/`));

        openDialog(
            format(_("Suspend $0?"), short),
            [
                el("p", {}, format(_("Its $0 processes get no more of any device until it is resumed."), below.length)),
                el("p", {}, _("What runs on a device now ends first. Programs wait; nothing is lost.")),
            ],
            [[_("Suspend"), async () => {
                await this.bus.call("Suspend", "", [], path, `${NAME}.Group`);
                this.done(format(_("$0 is suspended."), short), () =>
                    this.bus.call("Resume", "", [], path, `${NAME}.Group`).then(() => this.refresh())
                );
            }, "danger"]]
        );
    }

    resume(path, short) {
        this.try(async () => {
            await this.bus.call("Resume", "", [], path, `${NAME}.Group`);
            this.done(format(_("$0 runs again."), short));
        });
    }
}
