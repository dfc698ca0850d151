/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Holds beyond the gate: the process's channels on a device are stopped while every queue of its there is held so
 *
 * Streams share channels, so no stream can be stopped by itself. Those that wait at the gate alone, or run, keep the
 * others running: while a stream is let go, all run. A stream that the service does not know yet has no say.
 */

#include "include/xsched/xsched.h"

/* As xsched_queue_new(), for a queue whose channels can be stopped, or not. */
int cuda_stop_queue_new(XschedQueueInfo *info, XschedQueue **ret);

/* Before the last reference is given up. */
void cuda_stop_leave(const XschedQueue *xq);

/* The process is about to end: what it has runs, and is stopped no more. */
void cuda_stop_end(void);
