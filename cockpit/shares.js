/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the settings ask for, of each device's time: the service divides it, as its policies do. */

const GROUPS_MAX = 128; /* in one call */

const nNames = wanting => wanting.reduce((sum, [, names]) => sum + names.length, 0);

export const isTooMany = wanting => nNames(wanting) > GROUPS_MAX;

/* `wanting`: [device, names of groups that want it] of each. Where there are too many, nothing is said. */
export const isAskable = wanting => nNames(wanting) > 0 && !isTooMany(wanting);

/* [device, group, part] of these and of all above, as they are or as if Set had been called for the group. */
export async function askShares(bus, wanting, group = "", flags = 0, settings = {}) {
    return (await bus.call("ListShares", "a(sas)sta{sv}", [wanting, group, flags, settings]))[0];
}
