/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tells devices with a global policy the levels of each other
 */

#include "levels.h"
#include "service/settings/xsched-conf.h"

/* The levels of the devices that have the policy and count for others. */
typedef struct Known {
        const Device *highest; /* NULL: none has a level */
        int level, next_level; /* of `highest`, and the highest of all but that one */
        size_t n_active;
} Known;

/* A process that may register can name a device that does not exist. */
static bool is_made_up(const Device *d) {
        return !d->gpu && device_settings_is_empty(&d->runtime) &&
                        !overrides_find_device(&d->manager->overrides, d->id) &&
                        !config_names_device(d->manager->config, d->id);
}

static Known known_of(const Manager *m, const PolicyOps *ops) {
        Known k = {.level = POLICY_LEVEL_NONE, .next_level = POLICY_LEVEL_NONE};
        const Device *o, *tmp;

        HASH_ITER(hh, m->devices, o, tmp) {
                if (o->ops != ops || !o->level_counts)
                        continue;
                k.n_active += o->level_active;
                if (o->level > k.level) {
                        k.next_level = k.level;
                        k.level = o->level;
                        k.highest = o;
                } else
                        k.next_level = MAX(k.next_level, o->level);
        }
        return k;
}

static bool tell(Device *d, const Known *k, uint64_t now) {
        int level = d == k->highest ? k->next_level : k->level;
        bool active = k->n_active > (d->level_counts && d->level_active ? 1U : 0U);

        if (level == d->outside_level && active == d->others_active)
                return false;
        d->outside_level = level;
        d->others_active = active;
        d->ops->outside(d->policy, level, now);
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
        Known known = known_of(d->manager, d->ops);
        HASH_ITER(hh, d->manager->devices, o, tmp)
                if (o->ops == d->ops && policy_is_global(o->ops) && !(gone && o == d) && tell(o, &known, now))
                        any = true;
        return any;
}
