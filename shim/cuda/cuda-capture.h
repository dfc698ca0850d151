/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether anybody captures
 *
 * To ask a stream that is being captured spoils the capture, and a stream joins one by waiting for an event of it. So
 * while there is any capture no stream is asked at all. Between cuda_ask_begin() and cuda_ask_end() none begins.
 */

#include "common/macro.h"
#include "shim/cuda/cuda-abi.h"

/* Captures whose end was not seen. */
extern _hidden_ _Atomic uint32_t cuda_n_captures;

/* Before a call that begins one, on the thread that makes it; and after that call, or one that may have ended it. */
void cuda_capture_begins(CudaStream stream);
void cuda_capture_look(CudaStream stream);

/* The stream goes, or all of a context's: what they captured is over. */
void cuda_capture_drop_stream(CudaStream stream);
void cuda_capture_drop_context(CudaContext context);

/* As if there were one that never ends. */
void cuda_capture_for_ever(void);

/* False: somebody captures. */
bool cuda_ask_begin(void);
void cuda_ask_end(void);

/* In a child after fork. */
void cuda_capture_forget(void);
