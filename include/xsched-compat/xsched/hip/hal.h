/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HIP's streams, for XQueueCreate()
 *
 * Launches by HIP's own functions pass the gate of the stream's XQueue where libxsched-hip.so is preloaded. Without it
 * an XQueue schedules only the commands submitted to it.
 */

#include "../types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ihipStream_t *hipStream_t;

/* The stream must exist until HwQueueDestroy(), and must not be the default stream. Errors as of OclQueueCreate(). */
XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream);

#ifdef __cplusplus
}
#endif
