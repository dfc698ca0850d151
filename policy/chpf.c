/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Highest CPU priority first (CHPF of XSched, Shen et al., OSDI 2025): the device goes to whom the CPU goes to
 *
 * The level is that of the process on the CPU (PolicySettings.cpu_priority): its nice value with the sign turned, and
 * above all of those the real-time priorities, in their order. Equals take turns of a time slice. There a lower nice
 * value was taken for a lower priority where it was a real-time one; here it is not.
 *
 * What is scheduled is a process, with all its queues: groups have no nice value.
 */

#include "core.h"

static void chpf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->cpu_priority;
}

DEFINE_POLICY(chpf, "Highest CPU priority first: the nice value of each process", .by_process = true,
                .hint = chpf_hint);
