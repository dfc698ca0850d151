/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The device's own time stamps of launches (profiling events)
 *
 * Where the runtime calls back late, how long launches take is estimated from when they are found complete
 * (opencl-guess.h). This estimate is too long where another process has the device meanwhile, and where a program waits
 * for each launch, because it then includes the way to the device and back. The stamps of a launch's event are exact:
 * its start and its end on the device. Where a queue keeps them, and one has been read, launches are measured by them.
 *
 * Stamps are used only where callbacks are late: elsewhere callbacks measure launches (opencl-time.h). An event with
 * stamps costs a launch some microseconds (BENCHMARKS.md), so one launch in 2 ms of them is a sample, at random, one in
 * OPENCL_STAMPS_EVERY at least, and the next one where the last was OPENCL_STAMPS_LATE_NS ago: launches may have become
 * longer. It is read when it is found complete: no launch is waited for. Profiling is not enabled for this where the
 * application has not done that: it would cost the application's own events as much.
 */

#include "common/time-util.h"
#include "shim/opencl/opencl-queue.h"

#define OPENCL_STAMPS_EVERY   64U
#define OPENCL_STAMPS_LATE_NS (20 * NSEC_PER_MSEC)

/* Whether the queue keeps stamps, as far as is known, and the last sample was long ago. */
bool opencl_stamps_are_kept(const OpenclQueue *q);
bool opencl_stamps_are_late(const OpenclQueue *q);

/* Returns n: one of n launches that take `mean_ns` is a sample. */
uint32_t opencl_stamps_every(uint64_t mean_ns);

/* Without the lock. Asks a completed launch how long the device had it, in ns; 0: it does not say. */
uint64_t opencl_stamps_read(cl_event event);

/* Under the lock. A launch of this kind took so long. */
void opencl_stamps_learn(OpenclQueue *q, uint64_t kind, uint64_t ns);

/* Under the lock. Whether launches of this kind are measured by stamps. */
bool opencl_stamps_measure(const OpenclQueue *q, uint64_t kind);
