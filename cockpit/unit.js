/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The unit of the service, as systemd has it: started, and why it does not run. */

/* global cockpit */

import { _, format, problem } from "./words.js";

export const UNIT = "xsched.service";
const SYSTEMD = "org.freedesktop.systemd1", ROOT = "/org/freedesktop/systemd1", MANAGER = `${SYSTEMD}.Manager`;
const PROPERTIES = "org.freedesktop.DBus.Properties";

/* Calls `work(call, client)`; call(path, interface, method, type, arguments). */
async function withSystemd(work) {
    const client = cockpit.dbus(SYSTEMD, { bus: "system", superuser: "try" });
    const closed = new Promise((resolve, reject) =>
        client.addEventListener("close", (event, options) => reject(new Error(problem(options))))
    );
    const call = (path, iface, method, type, args) =>
        Promise.race([closed, Promise.resolve(client.call(path, iface, method, args, { type }))]);

    closed.catch(() => {});
    try {
        return await work(call, client, closed);
    } finally {
        client.close();
    }
}

async function failure(call) {
    const [path] = await call(ROOT, MANAGER, "LoadUnit", "s", [UNIT]);
    const get = async (iface, name) =>
        (await call(path, PROPERTIES, "Get", "ss", [`${SYSTEMD}.${iface}`, name]))[0].v;
    const [load, result] = [await get("Unit", "LoadState"), await get("Service", "Result")];

    if (load !== "loaded")
        return format(_("the unit $0 is $1"), UNIT, load);
    return result === "success" ? null : format(_("$0 has failed, with the result '$1'"), UNIT, result);
}

/* What its unit says, or null where nothing is wrong with that. */
export const whyNotRunning = () => withSystemd(failure).catch(() => null);

/* Until it is started. */
export const startService = () =>
    withSystemd(async (call, client, closed) => {
        const results = new Map();
        let look = () => {};

        client.subscribe({ interface: MANAGER, member: "JobRemoved", path: ROOT }, (path, iface, signal, args) => {
            results.set(args[1], args[3]);
            look();
        });
        await call(ROOT, MANAGER, "Subscribe", "", []);
        const [job] = await call(ROOT, MANAGER, "StartUnit", "ss", [UNIT, "replace"]);
        const ended = new Promise(resolve => (look = () => results.has(job) && resolve()));

        look();
        await Promise.race([closed, ended]);
        if (results.get(job) !== "done")
            throw new Error((await failure(call)) || format(_("its job ended with '$0'"), results.get(job)));
    });
