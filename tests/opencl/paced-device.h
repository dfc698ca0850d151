/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The paced device: a GPU that computes nothing, and takes the time that its kernels should take
 *
 * Processes share one, by memory that they map. Each of them has a context, whose launches run one after the other. The
 * device has one context loaded at a time. When that has no launch left, or its time slice is over, another context
 * with launches is loaded, which takes PACED_SWITCH_NS; a launch that is cut off by this goes on later. All these times
 * are those of an H200.
 *
 * No thread works for the device: when its launches began and ended follows from when they were submitted. So who asks
 * finds that out up to the present, and who waits sleeps until the launch may be over. This takes hardly any CPU time,
 * and the device is as punctual on a busy machine.
 *
 * Thread safety: any thread of any process.
 */

#include <stdbool.h>
#include <stdint.h>

#define PACED_SLICE_NS  UINT64_C(2000000)
#define PACED_SWITCH_NS UINT64_C(130000)
#define PACED_READY_NS  UINT64_C(6000) /* from the submission until the device knows of a launch */
#define PACED_NEXT_NS   UINT64_C(1800) /* between two launches of a context */
#define PACED_DONE_NS   UINT64_C(5000) /* from the end until the host knows of it */

typedef struct PacedDevice PacedDevice;

typedef struct PacedSpan {
        uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
} PacedSpan;

/* Maps the device of this file, which is made if it is not there. NULL: a device of this process. NULL on failure. */
PacedDevice *paced_open(const char *path);

/* Returns a free context, or -1. Contexts of processes that have ended are free. */
int paced_context_new(PacedDevice *d);

/* Submits a launch of this length. Returns its number: 0, 1, ... Negative: too many are in flight. */
int64_t paced_submit(PacedDevice *d, int context, uint64_t length_ns);

/* Takes the next launch of the context whose end the host may know of. Returns false if there is none. */
bool paced_take(PacedDevice *d, int context, PacedSpan *ret);

/* Returns when launch `number` will be over, if nobody else submits anything; as far as that is easily told: not later
 * than it will really be. */
uint64_t paced_due(PacedDevice *d, int context, uint64_t number);
