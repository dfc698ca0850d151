/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's own turn on the CPU
 *
 * What a decision takes is mostly the time until the service wakes up, and on a host whose CPUs are busy the ordinary scheduler lets it
 * wait for milliseconds. A decision itself takes microseconds, so while there is somebody to decide between the service has the lowest
 * real-time priority; the kernel's own limit on real-time work (sched_rt_runtime_us) and the watchdog stand behind it. At all other times it is
 * an ordinary process, which cannot be made to shut others out of their CPU by keeping it busy over the bus; and so it is while
 * it looks on without sleeping (BusyPoll=). Children never inherit it.
 */

#include <stdbool.h>

typedef enum Realtime {
        REALTIME_OFF,
        REALTIME_ON,
        REALTIME_REFUSED, /* the kernel did not let us: never tried again */
} Realtime;

/* Does nothing when it is so already. */
void realtime_set(Realtime *state, bool on);
