/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Stall: stopped processes
 *
 * The service does not wait for work of a stopped process (SIGSTOP, a debugger): while others want the device, a queue
 * whose counters do not move and whose process is stopped counts as idle until the process goes on. A process whose
 * cgroup is frozen counts as stopped at once (halt.h).
 */

#include "entity.h"

#define STALL_NS (100 * NSEC_PER_MSEC)

/* Number of processes whose CPU priority is read with each look for stopped processes. If there are more, they take
 * turns. */
#define STALL_NICE_LOOKS 256U

/* Called when the stalled queue is heard: its process goes on. */
void stall_end(Queue *q);

/* Whether the device has, or had, a reason to look for stopped processes. */
static inline bool stalls_may_be(const Device *d) {
        return d->n_ready > 1 || d->n_stalled > 0 || d->global || d->stall_at != NSEC_INFINITY;
}

/* Sets Device.stall_at, when stopped processes are looked for next. Called when the levels of the turn are known. */
void stalls_time(Device *d, uint64_t now);

/* Called at Device.stall_at: looks for them. */
void stalls_look(Device *d, uint64_t now);
