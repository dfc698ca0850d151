/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound: a launch that would be one too many waits until half of the bound is left
 *
 * It is one in time: as many launches as fit the service's budget, by what the next one and those in flight take
 * (common/launch-kind.h), and by how long the oldest one has been at it; and the threshold, where that is more, or
 * nothing is known.
 *
 * It never deadlocks. What is in flight can wait for the host (a kernel that spins on memory, a host function that
 * wants a lock of the launching thread): so a wait without any progress ends after a second, and the bound is twice
 * as high until a launch completes.
 */

#include "shim/cuda/cuda-queue.h"

/* How many may be in flight for one more of this kind; 0: any number. */
uint32_t cuda_bound_limit(CudaQueue *q, uint64_t kind);

bool cuda_bound_is_reached(CudaQueue *q, uint64_t kind);

/* As xsched_queue_begin(), where it is reached. */
int cuda_bound_begin(CudaQueue *q, uint64_t kind);
