/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Highest priority first, on each device (HPF), and over several (HHPF), both as in Shen et al., "XSched: Preemptive
 * Scheduling for Diverse XPUs", OSDI 2025
 *
 * Of the entities with work only those of the highest priority run. Equals take turns of a time slice, group by group
 * over the tree, whatever their weights. In XSched all equals run at once; here as many run as the device has places,
 * as under every policy.
 *
 * HHPF is global: while an entity of a higher priority could run on another device with this policy, entities of lower
 * priorities wait on all these devices, so that their work on the host and on the bus does not disturb it. So a device
 * may idle although an entity wants it. No entity starves, because each device has a floor of its own.
 */

#include "core.h"

static void hpf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->priority;
}

DEFINE_POLICY(hpf, "Highest priority first; equals take turns, whatever their weights", .hint = hpf_hint);

DEFINE_POLICY(hhpf, "Highest priority first over all devices together; equals take turns", .global = true,
                .hint = hpf_hint);
