/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Levels that count on all devices
 */

#include "levels.h"
#include "service/settings/xsched-conf.h"

/* What is known of other devices that have the policy. */
typedef struct Others {
        int level;
        bool active;
} Others;

/* Whoever may register can name a device that nobody has. */
static bool is_made_up(const Device *d) {
        return !d->gpu && device_settings_is_empty(&d->runtime) &&
                        !config_names_device(d->manager->config, d->id);
}

static Others others_of(const Device *d) {
        Others others = {.level = POLICY_LEVEL_NONE};
        const Device *o, *tmp;

        HASH_ITER(hh, d->manager->devices, o, tmp) {
                if (o == d || o->ops != d->ops || !o->level_counts)
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
        bool counts = global && !is_made_up(d);
        Device *o, *tmp;

        if (level == d->level && active == d->level_active && counts == d->level_counts)
                return false;
        d->level = level;
        d->level_active = active;
        d->level_counts = counts;
        HASH_ITER(hh, d->manager->devices, o, tmp)
                if (policy_is_global(o->ops) && !(gone && o == d) && tell(o, now))
                        any = true;
        return any;
}
