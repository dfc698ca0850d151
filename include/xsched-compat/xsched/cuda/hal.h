/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CUDA's streams, for XQueueCreate()
 */

#include "../types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *CUstream;

/* The stream must exist until HwQueueDestroy(), and must not be a default stream. Called with the stream's context
 * current. Errors as of OclQueueCreate(). */
XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream);

/* Returns the stream's handle. kXSchedErrorNotFound: it has none. */
XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream);

#ifdef __cplusplus
}
#endif
