/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Completely fair (CFS: Molnar, Linux 2.6.23, Documentation/scheduler/sched-design-CFS.rst)
 *
 * Of those who have work the one with the least virtual time is next, which passes the slower the heavier he is; for a
 * time slice, unless somebody comes who has had less. The weight of an entity is that of its settings, times 1.25 for
 * each step of priority within -20..19, as Linux has it of nice values. (In XSched it is 1.2, of priority alone.)
 *
 * Weights count among all entities of the device, whatever nodes they are below: who wants them to count group by group
 * has `tree`.
 */

#include "core.h"
#include "virtual.h"

#define CFS_NICE_MIN (-20)
#define CFS_NICE_MAX 19

static uint64_t cfs_weight(const PolicySettings *s) {
        int steps = CLAMP(s->priority, CFS_NICE_MIN, CFS_NICE_MAX);
        uint64_t w = (uint64_t) s->weight << 10;

        for (; steps > 0; steps--)
                w = w * 5 / 4;
        for (; steps < 0; steps++)
                w = w * 4 / 5;
        return MAX(w >> 10, UINT64_C(1));
}

static void cfs_hint(Order *o, OrderEntity *e) {
        e->slice_ns = o->config->timeslice_ns;
        virtual_set_weight(e, cfs_weight(e->settings));
}

static void cfs_tick(Order *o, OrderEntity *e) {
        e->slice_ns = o->config->timeslice_ns;
        virtual_tick(o, e);
}

DEFINE_POLICY(cfs, "Completely fair: the least virtual time first, by weight and priority", .keeps = true,
                .hint = cfs_hint, .enqueue = virtual_enqueue, .charge = virtual_charge, .tick = cfs_tick);
