/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long launches take
 *
 * Of a queue, for the service: the running mean of a launch's time on the device. And of each kind of launch (a
 * kernel and the order of magnitude of its work-items, or another function that makes the device work), for the
 * bound in time: a program that goes on to a kernel a hundred times as long is bounded by that one's time from its
 * first launch on, which counts as long as nothing is known of it.
 *
 * Where the runtime calls back at once, the times are its own: of some launches, by chance, it is asked to call
 * when they begin to run and when they are complete, which it does on the thread that runs them. What is waited for
 * in front of them, how late the application notices their end, and whether the queue was full, does not matter
 * then. A callback that comes out of the call that asks for it is too late to tell a time: such a launch is no
 * sample. The application's events and queues are not touched.
 *
 * Elsewhere callbacks come late, from a thread of the driver, and time is what passes between completions that were
 * noticed soon: opencl-guess.h.
 */

#include "shim/opencl/opencl-queue.h"

/* The kind of a launch: `what` is the kernel, or the name of what else it is; the rest as it is given to the
 * runtime, or 0. */
uint64_t opencl_time_kind(const void *what, cl_uint dim, const size_t *global);

/* The mean of its kind, nanoseconds; 0: unknown. */
uint64_t opencl_time_expected(const OpenclQueue *q, uint64_t kind);

/* Whether the next launch would become a sample, if it is of this kind. */
bool opencl_time_is_due(const OpenclQueue *q, uint64_t kind);

/* A launch has been submitted: without an event; or with one, and may become a sample. */
void opencl_time_skipped(OpenclQueue *q);
void opencl_time_submitted(OpenclQueue *q, cl_event event, uint64_t kind);

/* Under the queue's lock. What was found out about `n` launches of one kind, or of several (`kind` 0), that took
 * `ns` each. */
void opencl_time_learn(OpenclQueue *q, uint64_t kind, uint64_t ns);

/* Under the queue's lock: the launch has failed, and no callback may come. */
void opencl_time_give_up(OpenclQueue *q, cl_event event);

/* Under the queue's lock: the mean of what has been learned since the last call; 0: nothing. */
uint64_t opencl_time_take(OpenclQueue *q);

void opencl_time_reset(OpenclQueue *q);
