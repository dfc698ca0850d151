/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What was set at run time for a group or device: lifetime -> key -> variant, as GetSettings tells it. Pure but for the
 * two calls.
 *
 * To undo a change is to put back, of the keys that it changed, what each lifetime had of them. The service does that
 * only while all of it is what the page believes, so that nobody's later change is lost without a word.
 */

import { variant } from "./bus.js";

const isSame = (a, b) => JSON.stringify(a?.v) === JSON.stringify(b?.v);

export async function readLayers(bus, target) {
    return Object.fromEntries((await bus.call("GetSettings", "st", [target, 0]))[0]);
}

const toBus = layers => Object.entries(layers).filter(([, settings]) => Object.keys(settings).length > 0);

export function restoreLayers(bus, target, expected, layers) {
    return bus.call("RestoreSettings", "sta(sa{sv})a(sa{sv})", [target, 0, toBus(expected), toBus(layers)]);
}

export const keysOf = layers => [...new Set(Object.values(layers).flatMap(Object.keys))];

const lifetimesOf = (...many) => [...new Set(many.flatMap(Object.keys))];

/* The keys that are set differently. */
export function differing(a, b) {
    return [...new Set([...keysOf(a), ...keysOf(b)])].filter(key =>
        lifetimesOf(a, b).some(lifetime => !isSame(a[lifetime]?.[key], b[lifetime]?.[key]))
    );
}

/* As `now` is, but that these keys are as they were in `before`. */
export function withKeysOf(now, before, keys) {
    return Object.fromEntries(
        lifetimesOf(now, before).map(lifetime => {
            const settings = { ...now[lifetime] };

            for (const key of keys) {
                delete settings[key];
                if (before[lifetime]?.[key])
                    settings[key] = variant(before[lifetime][key].t, before[lifetime][key].v);
            }
            return [lifetime, settings];
        })
    );
}
