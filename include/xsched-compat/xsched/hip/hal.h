/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HIP's streams, for XQueueCreate()
 *
 * xsched's layer for AMD GPUs sees the queues of the hardware, which streams share: what is launched by HIP's own
 * functions is scheduled by the process, and an XQueue schedules the commands that are submitted to it.
 */

#include "../types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ihipStream_t *hipStream_t;

/* The stream has to be there until HwQueueDestroy(), and not the default one. Errors as of OclQueueCreate(). */
XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream);

#ifdef __cplusplus
}
#endif
