/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound: a launch that would be one too many waits until fewer are in flight
 */

#include "opencl-queue.h"

/* For a launch that found work of its queue tracked. */
void opencl_bound_wait(OpenclQueue *q);

/* Something has completed. */
void opencl_bound_progress(OpenclQueue *q);
