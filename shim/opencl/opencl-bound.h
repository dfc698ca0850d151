/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The wait for the in-flight bound: a launch above the bound waits until fewer are in flight
 */

#include "shim/opencl/opencl-queue.h"

/* Returns whether a launch on a queue with tracked launches is above the bound, or has to poll for completions while
 * the queue is held. */
bool opencl_bound_is_reached(OpenclQueue *q, uint64_t kind);

/* Calls xsched_queue_begin_bounded() for such a launch. */
int opencl_bound_begin(OpenclQueue *q, uint64_t kind);
