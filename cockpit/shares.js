/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the settings ask for, of each device's time: the service divides it, as its policies do. */

const GROUPS_MAX = 128; /* in one call */

/* `wanting`: [device, names of groups that want it] of each. Where there are too many, nothing is said. */
export function isAskable(wanting) {
    const n = wanting.reduce((sum, [, names]) => sum + names.length, 0);

    return n > 0 && n <= GROUPS_MAX;
}

/* [device, group, part] of these and of all above, as they are or as if Set had been called for the group. */
export async function askShares(bus, wanting, group = "", flags = 0, settings = {}) {
    return (await bus.call("ListShares", "a(sas)sta{sv}", [wanting, group, flags, settings]))[0];
}
