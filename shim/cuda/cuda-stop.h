/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Holds beyond the gate: the channels of a process on a device are stopped while each of its queues there is held at
 * that level
 *
 * Streams share channels, so a single stream cannot be stopped. A stream that runs, or is only held at the gate, keeps
 * all channels running. A stream that is not registered yet is not counted.
 */

#include "cuda-rm.h"
#include "include/xsched/xsched.h"

/* As xsched_queue_new(), after setting level and apply of *info by whether the channels on its device can be
 * stopped. */
int cuda_stop_queue_new(XschedQueueInfo *info, XschedQueue **ret);

/* Called before the last reference is dropped. */
void cuda_stop_leave(const XschedQueue *xq);

/* The process is about to end: enables all channels, and stops none from now on. */
void cuda_stop_end(void);

/* Called under cuda_rm_lock(). cuda_stop_lower(): the device can no longer be stopped. cuda_stop_forget(): in a child
 * after fork(). */
void cuda_stop_lower(const CudaGpu *g);
void cuda_stop_forget(void);
