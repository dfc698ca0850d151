/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's own turn on the CPU
 *
 * What a decision takes is mostly the time until the service wakes up, and on a host whose CPUs are busy the ordinary
 * scheduler lets it wait for milliseconds. A decision itself takes microseconds, so while there is somebody to decide
 * between the service has the lowest real-time priority; the kernel's own limit on real-time work (sched_rt_runtime_us)
 * and the watchdog stand behind it. At all other times it is an ordinary process, which cannot be made to shut others
 * out of their CPU by keeping it busy over the bus; and so it is while it looks on without sleeping (BusyPoll=).
 * Children never inherit it.
 *
 * Whoever keeps it busy all the same, by whatever means, gets no real-time process out of it: one that has used more
 * than one part in REALTIME_BUSY of a window is an ordinary process until it has used less than one in REALTIME_CALM of
 * one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define REALTIME_WINDOW_NS (100 * NSEC_PER_MSEC)
#define REALTIME_BUSY      2U
#define REALTIME_CALM      4U

typedef enum Realtime {
        REALTIME_OFF,
        REALTIME_ON,
        REALTIME_REFUSED, /* the kernel did not let us: never tried again */
} Realtime;

/* How much of its CPU this thread has used of late. */
typedef struct RealtimeLoad {
        uint64_t since, cpu_ns; /* of the current window */
        bool is_busy;
} RealtimeLoad;

/* Looks once a window. Returns whether the thread is too busy for real time. */
bool realtime_is_busy(RealtimeLoad *l, uint64_t now);

/* Does nothing when it is so already. */
void realtime_set(Realtime *state, bool on);
