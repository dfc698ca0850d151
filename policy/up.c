/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Utilisation partitions: each entity (UP), or each process (PUP), has a fixed part of the time (both of XSched, Shen
 * et al., OSDI 2025)
 *
 * The parts are PolicySettings.utilization, in relation to those of all others who have work: what somebody does not
 * use is the others'. Slices are as long as the parts, so that a round of all is a time slice for each on average where
 * they add up to 100 percent. In XSched that is all, and kernels that run over a slice tip the parts; here what was
 * really had is kept count of in virtual time (virtual.h), so that the parts hold in the long run.
 *
 * They are parts of each device: in XSched one round goes over all of them, and one GPU waits for another.
 */

#include "core.h"
#include "virtual.h"

static void up_hint(Order *o, OrderEntity *e) {
        uint64_t slice_ns = o->config->timeslice_ns * e->settings->utilization / 100;

        e->slice_ns = MAX(slice_ns, UINT64_C(1));
        virtual_set_weight(e, e->settings->utilization);
}

static void up_tick(Order *o, OrderEntity *e) {
        up_hint(o, e);
        virtual_tick(o, e);
}

DEFINE_POLICY(up, "Utilisation partitions: each entity has a fixed part of the time", .keeps = true,
                .hint = up_hint, .enqueue = virtual_enqueue, .charge = virtual_charge, .tick = up_tick);

DEFINE_POLICY(pup, "Utilisation partitions by process: all queues of a process have one part",
                .by_process = true, .keeps = true, .hint = up_hint, .enqueue = virtual_enqueue,
                .charge = virtual_charge, .tick = up_tick);
