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

/* The queue is retained until HwQueueDestroy(). A queue that has a handle already: that one. kXSchedErrorInvalidValue:
 * a NULL, or no queue by the word of the runtime; kXSchedErrorNotSupported: there is no OpenCL in the process. */
XResult OclQueueCreate(HwQueueHandle *hwq, cl_command_queue cmdq);

#ifdef __cplusplus
}
#endif
