/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Highest priority first, on each device (HPF), and over several (HHPF), both as in Shen et al., "XSched: Preemptive
 * Scheduling for Diverse XPUs", OSDI 2025
 *
 * Of those who have work only those of the highest priority run. Equals take turns of a time slice, group by group over
 * the tree, whatever their weights. In XSched all of them run at once; here it is as many as the device has places, as
 * in every policy.
 *
 * HHPF is global by definition: while somebody of a higher priority could run on another device that has this policy,
 * those of lower ones wait on all of them, so that what they do on the host, and on the bus, is not in his way. So a
 * device may idle although somebody wants it; but nobody is starved, since the floor is each device's own.
 */

#include "core.h"

static void hpf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->priority;
}

DEFINE_POLICY(hpf, "Highest priority first; equals take turns, whatever their weights", .hint = hpf_hint);

DEFINE_POLICY(hhpf, "Highest priority first over all devices together; equals take turns", .global = true,
                .hint = hpf_hint);
