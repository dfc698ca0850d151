/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound
 *
 * The bound limits time: as many launches as fit the service's budget, by the known times of the launch's kind and of
 * those in flight (opencl-time.h), and by how long the oldest has been running. The threshold applies where it allows
 * more, or where no time is known.
 */

#include "shim/opencl/opencl-queue.h"

/* Returns how many launches may be in flight when the next one is of this kind; 0: unlimited. */
uint32_t opencl_limit(OpenclQueue *q, uint64_t kind);

/* Launches have completed: wakes threads that wait for the bound. */
void opencl_limit_progress(OpenclQueue *q);
