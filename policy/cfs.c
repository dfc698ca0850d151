/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Completely fair (CFS: Molnar, Linux 2.6.23, Documentation/scheduler/sched-design-CFS.rst; group by group since
 * 2.6.24)
 *
 * No entity has precedence. Each that has work gets its share of the time, by weight among its siblings in the tree.
 * The weight is that of the settings, times 1.25 for each step of priority within -20..19, as Linux derives it from
 * nice values. (In XSched it is 1.2, of priority alone, and all entities of a device are siblings.)
 *
 * Virtual time (fair.h) decides which entity is next; it passes more slowly for a heavier one. As in Linux since 6.6
 * (EEVDF), of the entities that are owed time the one whose slice should end first is chosen, not the one that is owed
 * most. So two entities that always have work are never further apart in virtual time than a slice of each.
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
