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

/* The stream has to be there until HwQueueDestroy(), and not one of the default ones. Called with the stream's context
 * current. Errors as of OclQueueCreate(). */
XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream);

/* The handle that the stream has. kXSchedErrorNotFound: it has none. */
XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream);

#ifdef __cplusplus
}
#endif
