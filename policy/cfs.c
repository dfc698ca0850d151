/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Completely fair (CFS: Molnar, Linux 2.6.23, Documentation/scheduler/sched-design-CFS.rst; group by group since
 * 2.6.24)
 *
 * Nobody has precedence: who has work has his share of the time, by weight among those beside him in the tree. The
 * weight is that of the settings, times 1.25 for each step of priority within -20..19, as Linux has it of nice values.
 * (In XSched it is 1.2, of priority alone, and all entities of a device are equals beside each other.)
 *
 * Who is next fair.h says, by virtual time, which passes the slower the heavier somebody is; and as in Linux since 6.6
 * (EEVDF) of those who are owed time it is the one whose slice should be over first, rather than the one who is owed
 * most. So no two who always have work are further apart in virtual time than a slice of each.
 */

#include "core.h"

static uint32_t cfs_nice(uint32_t weight, int nice) {
        uint64_t w = (uint64_t) weight << 10;

        for (; nice > 0; nice--)
                w = w * 5 / 4;
        for (; nice < 0; nice++)
                w = w * 4 / 5;
        w >>= 10;
        return (uint32_t) CLAMP(w, (uint64_t) POLICY_WEIGHT_MIN, (uint64_t) POLICY_WEIGHT_MAX);
}

static uint32_t cfs_weight(const PolicySettings *s) {
        return cfs_nice(s->weight, s->nice);
}

static uint32_t cfs_node_weight(const PolicyNodeSettings *s) {
        return cfs_nice(s->weight, s->nice);
}

static void cfs_hint(Order *o, OrderEntity *e) {
        e->level = 0;
}

DEFINE_POLICY(cfs, "Completely fair: all share over the tree of cgroups, by weight and priority", .weight = cfs_weight,
                .node_weight = cfs_node_weight, .hint = cfs_hint);
