/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Realtime: the service's real-time priority while it makes decisions
 *
 * The latency of a decision is mostly the service's wake-up, and on a host with busy CPUs the ordinary scheduler delays
 * that by milliseconds, whatever the nice level: who has just used the CPU waits for the end of another's slice. A
 * decision itself takes microseconds, so the service has the lowest real-time priority while a device has several
 * entities. It has it before they compete, because the first to launch beside another waits for the service, too. The
 * kernel's own limit on real-time work (sched_rt_runtime_us) and the watchdog bound it. It is an ordinary process while
 * there is nobody to decide between, and while it polls without sleeping (BusyPoll=). Children never inherit it.
 *
 * Clients that keep it busy by other means do not get a real-time hog: a service that has used more than
 * 1/REALTIME_BUSY of a window is an ordinary process until it has used less than 1/REALTIME_CALM of one.
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
        REALTIME_REFUSED, /* the kernel refused: never tried again */
} Realtime;

/* How much of its CPU this thread has used of late. */
typedef struct RealtimeLoad {
        uint64_t since, cpu_ns; /* of the current window */
        bool is_busy;
} RealtimeLoad;

/* Looks once a window. Returns whether the thread is too busy for real time. */
bool realtime_is_busy(RealtimeLoad *l, uint64_t now);

/* Sets or clears the real-time priority. Does nothing when the state is already `on`. */
void realtime_set(Realtime *state, bool on);
