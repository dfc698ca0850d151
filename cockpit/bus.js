/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service over the system bus: whether it is there, what it says by itself, and at most one call a second
 *
 * All through cockpit.dbus(). Calls name their types, so that the bridge need not introspect, and nothing here starts
 * the service by activation: an administrator who stops it finds it stopped. Somebody who clicks may call at any time;
 * what is asked again and again shares one call a second (`onturn`), and none while the page is hidden or a former one
 * is not answered.
 *
 * Events, as callbacks: onpresent(), onabsent(), onsignal(path, interface, name, arguments), onturn() -> Promise or
 * nothing, onsilence(milliseconds, error): for how long the last turn's call has not been answered, or how it failed,
 * and onpermissions().
 */

/* global cockpit */

import { _ } from "./words.js";

export const NAME = "org.xsched.Scheduler";
export const PATH = "/org/xsched/Scheduler";
const ACTIONS = "org.xsched";
const TURN_MS = 1000;
const AGAIN_MS = 1000;
const PROPERTIES = "org.freedesktop.DBus.Properties";

export class Bus {
    constructor() {
        this.client = null;
        this.present = null; /* not known yet */
        this.busy = false;
        this.may = { manage: false, suspend: false, "manage-own": false };
        this.callbacks = {};
    }

    start(callbacks) {
        this.callbacks = callbacks;
        this.watch();

        /* With administrative access switched on or off, another bridge speaks for the person. */
        this.superuser = cockpit.dbus(null, { bus: "internal" }).proxy("cockpit.Superuser", "/superuser");
        this.superuser.addEventListener("changed", () => {
            if (this.superuser.Current !== "init" && this.superuser.Current !== this.current) {
                const known = this.current !== undefined;

                this.current = this.superuser.Current;
                if (known && this.present)
                    this.connect();
            }
        });
        cockpit.addEventListener("visibilitychange", () => cockpit.hidden || this.turn());
        window.setInterval(() => this.turn(), TURN_MS);
    }

    /* Whether the service is there. A channel that is closed is opened again, and asked anew. */
    watch() {
        const daemon = cockpit.dbus("org.freedesktop.DBus", { bus: "system" });

        daemon.subscribe(
            { interface: "org.freedesktop.DBus", member: "NameOwnerChanged", arg0: NAME },
            (path, iface, signal, args) => this.setOwner(args[2])
        );
        daemon
            .call("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner", [NAME], { type: "s" })
            .then(reply => this.setOwner(reply[0] ? "somebody" : ""))
            .catch(() => this.setOwner(""));
        daemon.addEventListener("close", () => window.setTimeout(() => this.watch(), AGAIN_MS));
    }

    setOwner(owner) {
        const present = owner !== "";

        if (present) {
            this.present = true;
            this.connect();
        } else if (this.present !== false) {
            this.present = false;
            this.disconnect();
            this.callbacks.onabsent();
        }
    }

    disconnect() {
        const client = this.client;

        this.client = null;
        this.busy = false;
        client?.close();
    }

    connect() {
        this.disconnect();
        const client = cockpit.dbus(NAME, { bus: "system", superuser: "try" });

        this.client = client;
        client.addEventListener("close", () => {
            if (this.client !== client)
                return;
            /* By the bridge, or the bus: the service may be there all the same. */
            this.disconnect();
            window.setTimeout(() => !this.client && this.present && this.connect(), AGAIN_MS);
        });
        for (const iface of [PROPERTIES, NAME])
            client.subscribe({ interface: iface, path_namespace: PATH }, (path, from, signal, args) => {
                if (this.client === client)
                    this.callbacks.onsignal(path, from, signal, args);
            });
        this.lastTurn = -Infinity;
        this.askPermissions();
        this.callbacks.onpresent();
        this.turn();
    }

    /* Of the live view: nothing but what `onturn` asks for, at most once a second. */
    turn() {
        const now = performance.now();

        if (!this.client || cockpit.hidden || now - this.lastTurn < TURN_MS - 20)
            return;
        if (this.busy) {
            this.callbacks.onsilence(now - this.lastTurn);
            return;
        }
        const client = this.client, call = this.callbacks.onturn();

        if (!call)
            return;
        this.lastTurn = now;
        this.busy = true;
        call.then(
            () => this.client === client && this.callbacks.onsilence(0),
            error => {
                console.warn("xsched:", error.message || error.problem);
                if (this.client === client)
                    this.callbacks.onsilence(0, error);
            }
        ).finally(() => {
            if (this.client === client)
                this.busy = false;
        });
    }

    call(method, type, args = [], path = PATH, iface = NAME) {
        if (!this.client)
            return Promise.reject(new Error(_("The service does not run.")));
        /* As the language has promises: one of Cockpit's never ends where a handler throws. */
        return Promise.resolve(this.client.call(path, iface, method, args, { type }));
    }

    /* As sd_bus_path_encode() has it. */
    devicePath(id) {
        return `${PATH}/device/${encode(id)}`;
    }

    groupPath(name) {
        return `${PATH}/group/${encode(name)}`;
    }

    get(path, iface, property) {
        return this.call("Get", "ss", [iface, property], path, PROPERTIES).then(reply => reply[0].v);
    }

    /* What polkit says now of the bridge that speaks for the person; the service asks polkit again at each call. */
    askPermissions() {
        const authority = cockpit.dbus("org.freedesktop.PolicyKit1", { bus: "system", superuser: "try" });
        const ask = action =>
            authority.call(
                "/org/freedesktop/PolicyKit1/Authority",
                "org.freedesktop.PolicyKit1.Authority",
                "CheckAuthorization",
                [["system-bus-name", { name: variant("s", authority.unique_name) }], `${ACTIONS}.${action}`, {}, 0, ""],
                { type: "(sa{sv})sa{ss}us" }
            );

        const names = Object.keys(this.may);

        this.authority = authority; /* who was asked before counts no more */
        this.permissions = authority
            .wait()
            .then(() => Promise.all(names.map(action => ask(action))))
            .then(replies => replies.map(reply => reply[0][0]))
            .catch(error => {
                console.warn("xsched: polkit:", error.message || error.problem);
                return [];
            })
            .then(answers => {
                authority.close();
                if (this.authority !== authority)
                    return;
                names.forEach((action, i) => (this.may[action] = answers[i] || false));
                this.callbacks.onpermissions();
            });
    }
}

function encode(name) {
    return [...new TextEncoder().encode(name)]
        .map((byte, i) => {
            const c = String.fromCharCode(byte);

            return (i > 0 ? /[A-Za-z0-9]/ : /[A-Za-z]/).test(c) ? c : `_${byte.toString(16).padStart(2, "0")}`;
        })
        .join("");
}

/* A setting as the bus has it. */
export function variant(type, value) {
    return { t: type, v: value };
}
