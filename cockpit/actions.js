/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What can be done with a group or a process of the tree, by whom: everything else is read-only, and says why. */

/* global cockpit */

import { NAME } from "./bus.js";
import { changeDevice } from "./device.js";
import { openDialog, openMenu } from "./dialog.js";
import { el } from "./dom.js";
import { explain } from "./explain.js";
import { GroupChange } from "./group.js";
import { _, distinctName, format, problem, shortName } from "./words.js";

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
        const inside = this.model.processesWithin(name);

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
        else
            this.alerts.say(format(_("$0 is no longer there."), kind === "group" ? shortName(name) : name), "warning");
    }

    groupMenu(group, opener) {
        const may = this.bus.may, name = group.name, short = distinctName(group);
        const needs = _("needs administrative access"), owner = !may.manage && may["manage-own"] && this.isOwn(name);
        const path = this.bus.groupPath(name), above = group.Suspended && group.SuspendedBy !== name;
        const unit = encodeURIComponent(group.Unit || (name.endsWith(".slice") ? shortName(name) : ""));
        const ofUser = /\/user@\d+\.service\//.test(name);

        openMenu(opener, format(_("Actions for $0"), short), [
            may.manage || owner
                ? [_("Change…"), () => this.try(() => this.change(name, owner))]
                : [_("Change…"), null, needs],
            group.Suspended
                ? above
                    ? [_("Resume…"), null, format(_("suspended with $0"), shortName(group.SuspendedBy))]
                    : [_("Resume…"), may.suspend ? () => this.suspend(name, short, false) : null, !may.suspend && needs]
                : [_("Suspend…"), may.suspend ? () => this.suspend(name, short, true) : null, !may.suspend && needs],
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
        return new GroupChange(this.bus, this.model, name, owner).open((text, undo) => this.done(text, undo));
    }

    changeDevice(id) {
        this.try(() => changeDevice(this.bus, this.model, id, (text, undo) => this.done(text, undo)));
    }

    /* What it would do is said first, of suspending and of resuming; each takes back the other. */
    suspend(name, short, suspended) {
        const n = this.model.processesWithin(name).length;
        const set = to =>
            this.bus.call(to ? "Suspend" : "Resume", "", [], this.bus.groupPath(name), `${NAME}.Group`);
        const [title, ...words] = suspended
            ? [
                  _("Suspend $0?"),
                  format(_("Its processes ($0) get no time of any device until it is resumed."), n),
                  _("Work that runs on a device now ends first. Programs wait; nothing is lost."),
              ]
            : [
                  _("Resume $0?"),
                  format(_("Its processes ($0) get their share of the devices again."), n),
                  _("Waiting programs continue."),
              ];

        openDialog(
            format(title, short),
            words.map(text => el("p", {}, text)),
            [[suspended ? _("Suspend") : _("Resume"), async () => {
                const is = await this.isSuspended(name);

                if (is !== suspended)
                    await set(suspended);
                this.done(
                    format(suspended ? _("$0 is suspended.") : _("$0 runs again."), short),
                    /* What somebody else did first is not this person's to take back. */
                    is === suspended ? null : async () => {
                        if ((await this.isSuspended(name)) === suspended)
                            await set(!suspended);
                        this.refresh();
                        return true;
                    }
                );
            }, suspended ? "danger" : "primary"]]
        );
    }

    /* By itself, and not with a group above. */
    async isSuspended(name) {
        return (await this.bus.get(this.bus.groupPath(name), `${NAME}.Group`, "SuspendedBy")) === name;
    }
}
