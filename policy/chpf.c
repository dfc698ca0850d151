/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Highest CPU priority first (CHPF of XSched, Shen et al., OSDI 2025): the device follows the CPU
 *
 * The level is the CPU priority of the process (PolicySettings.cpu_priority): its nice value with the sign turned, and
 * above all of those the real-time priorities, in their order. Equals take turns of a time slice. XSched takes a
 * real-time priority for a nice value; this policy does not.
 *
 * The policy schedules processes, with all their queues: groups have no nice value.
 */

#include "core.h"

static void chpf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->cpu_priority;
}

DEFINE_POLICY(chpf, "Highest CPU priority first: the nice value of each process", .by_process = true,
                .hint = chpf_hint);
