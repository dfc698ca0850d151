/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Levels: for policies that go over several devices (policy_is_global())
 *
 * On all devices with such a policy, only entities of the highest level of all run. So each device is told the highest
 * level of the others, whenever that changes. While others have clients it is neither ALONE nor SOLE (arbiter.h),
 * because levels of unwatched entities are not known.
 *
 * A device counts for others only if it is a GPU that the kernel knows, or if the administrator has named it: by
 * settings at run time, or by a section of the configuration with just its id. Any other may be made up by a process
 * that wants to hold up all others.
 *
 * Cost: nothing where no device has a global policy; else two looks at each device when the level of one changes, or
 * whether it has clients.
 */

#include "device.h"

/* Called before and after the device's policy is dispatched, or before it gets another policy (`gone`). Returns whether
 * other devices were told: these have `level_told` set; the caller clears that and dispatches them. */
bool levels_update(Device *d, bool gone, uint64_t now);

/* Whether levels_update() may have anything to do: not where the policy is not global, and the former one was not. */
static inline bool levels_count(const Device *d) {
        return d->global || d->level_active || d->level_counts || d->level != POLICY_LEVEL_NONE;
}

/* Whether the device's policy is global, and others with it have clients. */
static inline bool levels_concern(const Device *d) {
        return d->others_active && d->global;
}
