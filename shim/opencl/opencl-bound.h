/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound: a launch that would be one too many waits until fewer are in flight
 */

#include "shim/opencl/opencl-queue.h"

/* For a launch that found work of its queue tracked: whether it is one too many, or has to look for completions while
 * it is held. */
bool opencl_bound_is_reached(OpenclQueue *q, uint64_t kind);

/* How many may be in flight with one of this kind; 0: any number. */
uint32_t opencl_bound_limit(OpenclQueue *q, uint64_t kind);

/* xsched_queue_begin_bounded() of such a launch. */
int opencl_bound_begin(OpenclQueue *q, uint64_t kind);

/* Something has completed. */
void opencl_bound_progress(OpenclQueue *q);
