/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Highest priority first (XSched's HPF: Shen et al., "XSched: Preemptive Scheduling for Diverse XPUs", OSDI 2025)
 *
 * Of those who have work only those of the highest priority run. Equals take turns of a time slice, whatever their
 * weights and groups. There all of them run at once; here it is as many as the device has places, as in every policy.
 */

#include "core.h"

static void hpf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->priority;
}

DEFINE_POLICY(hpf, "Highest priority first; equals take turns, whatever their weights", .hint = hpf_hint);
