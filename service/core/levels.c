/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Levels over devices
 */

#include "levels.h"

/* Of the others, that have the policy. */
typedef struct Others {
        int level;
        bool active;
} Others;

static Others others_of(const Device *d) {
        Others others = {.level = POLICY_LEVEL_NONE};
        const Device *o, *tmp;

        HASH_ITER(hh, d->manager->devices, o, tmp) {
                if (o == d || o->ops != d->ops)
                        continue;
                others.level = MAX(others.level, o->level);
                others.active = others.active || o->level_active;
        }
        return others;
}

static bool tell(Device *d, uint64_t now) {
        Others others = others_of(d);

        if (others.level == d->outside_level && others.active == d->others_active)
                return false;
        d->outside_level = others.level;
        d->others_active = others.active;
        d->ops->outside(d->policy, others.level, now);
        d->level_told = true;
        return true;
}

bool levels_update(Device *d, bool gone, uint64_t now) {
        bool global = policy_is_global(d->ops) && !gone, active = global && d->n_active > 0, any = false;
        int level = global ? d->ops->level(d->policy) : POLICY_LEVEL_NONE;
        Device *o, *tmp;

        if (level == d->level && active == d->level_active)
                return false;
        d->level = level;
        d->level_active = active;
        HASH_ITER(hh, d->manager->devices, o, tmp)
                if (policy_is_global(o->ops) && !(gone && o == d) && tell(o, now))
                        any = true;
        return any;
}
