/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The in-flight bound: a launch above the bound waits until half of the bound is in flight
 *
 * The bound limits time: as many launches as fit the service's budget, by the times of the next launch and of those in
 * flight (common/launch-kind.h), and by how long the oldest has been running. The threshold applies where it allows
 * more, or where no time is known. While the device keeps up with the program, that is, has done each mark before the
 * next one is recorded, nearly all launches that count as in flight have ended: then the driver is asked for one mark
 * in two, and so many more launches count.
 *
 * The bound never deadlocks. Launches in flight can wait for the host (a kernel that spins on memory, a host function
 * that needs a lock of the launching thread). So a wait without any progress ends after a second, and the bound is
 * doubled until a launch completes.
 */

#include "shim/cuda/cuda-queue.h"

/* Returns how many launches may be in flight when the next one is of this kind; 0: unlimited. */
uint32_t cuda_bound_limit(CudaQueue *q, uint64_t kind);

/* Returns whether the next launch has to begin by cuda_bound_begin(). `limit`: cuda_bound_limit(), just now. */
bool cuda_bound_is_reached(const CudaQueue *q, uint32_t limit);

/* As xsched_queue_begin(), for a launch above the bound. */
int cuda_bound_begin(CudaQueue *q, uint64_t kind);
