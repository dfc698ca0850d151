/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a device's time is to be divided into by the settings of those who want it. Pure.
 *
 * As the policy `tree` does it when all of them want it all the time: of those with the highest priority each has its
 * part by the weights at every level of the tree; a Min= comes before that, and a Max= binds what is below. It is what
 * is asked for: what somebody got is counted.
 */

const positive = (value, otherwise) => (value > 0 ? value : otherwise);

/* `wanting`: names of groups that want the device. Returns name -> part, of them and of all above. */
export function sharesAsked(groups, wanting, change = null) {
    const get = (name, key) => (change && change.name === name && key in change ? change[key] : groups.get(name)[key]);
    const nodes = new Map();

    const node = name => {
        if (!nodes.has(name)) {
            nodes.set(name, { name, wants: false, below: [] });
            const parent = groups.get(name).Parent;

            if (parent && parent !== name && groups.has(parent))
                node(parent).below.push(nodes.get(name));
        }
        return nodes.get(name);
    };
    const names = wanting.filter(name => groups.has(name) && !groups.get(name).Suspended);

    names.forEach(name => (node(name).wants = true));
    const highest = Math.max(...names.map(name => get(name, "Priority")));

    const isRoot = ({ name }) => groups.get(name).Parent === name || !nodes.has(groups.get(name).Parent);
    const competes = n => (n.wants && get(n.name, "Priority") === highest) || n.below.some(competes);
    const asked = new Map();

    divide([...nodes.values()].filter(isRoot), 1, get, competes, asked);
    return asked;
}

/* A group's own work is beside the groups below it, and weighs what a group does that nobody has set. */
function divide(list, whole, get, competes, asked) {
    const parts = new Map(list.map(n => [n, guaranteed(n, get)])), fixed = new Set();
    let left = 0;

    /* Who is bound by a limit or carried by a guarantee leaves the rest to the others, until nobody else is. */
    for (let again = true; again; ) {
        again = false;
        const open = list.filter(n => !fixed.has(n) && competes(n));
        const weights = open.reduce((sum, n) => sum + get(n.name, "Weight"), 0);

        left = Math.max(0, whole - [...fixed].concat(list.filter(n => !fixed.has(n) && !competes(n)))
            .reduce((sum, n) => sum + parts.get(n), 0));
        for (const n of open) {
            const limit = positive(get(n.name, "Max"), 100) / 100, part = (left * get(n.name, "Weight")) / weights;

            if (part > limit || part < guaranteed(n, get)) {
                parts.set(n, part > limit ? limit : guaranteed(n, get));
                fixed.add(n);
                again = true;
                break;
            }
            parts.set(n, part);
        }
    }
    for (const n of list) {
        asked.set(n.name, parts.get(n));
        if (n.below.length > 0)
            divide(n.below, parts.get(n) * (n.wants ? n.below.length / (n.below.length + 1) : 1), get, competes, asked);
    }
}

const guaranteed = (n, get) => positive(get(n.name, "Min"), 0) / 100;
