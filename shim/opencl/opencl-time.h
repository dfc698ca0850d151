/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The device time of launches
 *
 * For the service: the running mean of a launch of a queue. For the bound in time: the mean of each kind of launch (a
 * kernel and the order of magnitude of its work-items, or another function that makes the device work). A program that
 * goes on to a kernel a hundred times as long is bounded by that kernel's time from its first launch on; a launch of
 * unknown time uses the threshold.
 *
 * Where the runtime calls back at once, the times are its own: it is asked for callbacks on the start and the
 * completion of randomly chosen launches, and makes them on the thread that runs the launch. Then neither the launch's
 * wait list, nor how late the application notices its end, nor a full queue distorts the time. A launch whose callback
 * comes inside the call that asks for it is too late to measure, and is no sample. The application's events and queues
 * are not touched.
 *
 * Elsewhere callbacks come late, from a thread of the driver, and the time between completions that were noticed soon
 * is used: opencl-guess.h.
 */

#include "shim/opencl/opencl-queue.h"

/* Returns the kind of a launch. `what`: the kernel, or the name of another function; `dim` and `global` as given to the
 * runtime, or 0. */
uint64_t opencl_time_kind(const void *what, cl_uint dim, const size_t *global);

/* Returns the mean time of a kind in nanoseconds; 0: unknown. */
uint64_t opencl_time_expected(const OpenclQueue *q, uint64_t kind);

/* Returns whether the next launch becomes a sample, if it is of this kind. */
bool opencl_time_is_due(const OpenclQueue *q, uint64_t kind);

/* A launch has been submitted: without an event, or with one, by which it may become a sample. Returns whether its time
 * stamps are to be read when it is complete. */
void opencl_time_skipped(OpenclQueue *q);
bool opencl_time_submitted(OpenclQueue *q, cl_event event, uint64_t kind);

/* Under the queue's lock. Learns that launches of one kind, or of several (`kind` 0), took `ns` each. */
void opencl_time_learn(OpenclQueue *q, uint64_t kind, uint64_t ns);

/* Under the queue's lock. Gives up the sample of a failed launch, whose callback may not come. */
void opencl_time_give_up(OpenclQueue *q, cl_event event);

/* Under the queue's lock. Returns the mean of what has been learned since the last call; 0: nothing. */
uint64_t opencl_time_take(OpenclQueue *q);

void opencl_time_reset(OpenclQueue *q);
