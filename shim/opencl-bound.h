/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound: a launch that would be one too many waits until fewer are in flight
 */

#include "opencl-queue.h"

/* For a launch that found work of its queue tracked: whether it is one too many. */
bool opencl_bound_is_reached(OpenclQueue *q);

/* Until it is not any more. `userdata`: the queue. */
void opencl_bound_wait(void *userdata);

/* Something has completed. */
void opencl_bound_progress(OpenclQueue *q);
