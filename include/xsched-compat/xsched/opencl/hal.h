/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * OpenCL's command queues, for XQueueCreate()
 */

#include "../types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _cl_command_queue *cl_command_queue;

/* The queue is retained until HwQueueDestroy(). A queue that has a handle already gets the same one.
 * kXSchedErrorInvalidValue: a NULL, or the runtime knows no such queue; kXSchedErrorNotSupported: the process has no
 * OpenCL. */
XResult OclQueueCreate(HwQueueHandle *hwq, cl_command_queue cmdq);

#ifdef __cplusplus
}
#endif
