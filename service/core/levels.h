/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Levels over devices: for policies that go over several (policy_is_global())
 *
 * Of all devices that have such a policy only those of the highest level of all run. So each is told the highest of the
 * others, whenever that changes, and is watched while others have clients: it is neither ALONE nor SOLE then
 * (arbiter.h), since nobody would hear of what is not watched.
 *
 * Cost: nothing where no device has such a policy; else, when the level of one, or whether it has clients, changes, a
 * look at all devices.
 */

#include "device.h"

/* After the policy was asked; or before it gets another one (`gone`). Whether devices were told something: their
 * `level_told` is set, which the caller takes back, and they are to be asked. */
bool levels_update(Device *d, bool gone, uint64_t now);

/* Others with the same policy have clients, and that goes over all of them. */
static inline bool levels_concern(const Device *d) {
        return d->others_active && policy_is_global(d->ops);
}
