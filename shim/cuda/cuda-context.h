/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Contexts that end by more than their own destruction: primary contexts of devices, and green contexts, which are
 * parts of those
 *
 * What belongs to a green context has the context that cuCtxFromGreenCtx() returns: its streams, those that are made
 * while that context is current, and the default streams. So a green context ends as a context does (seen with the
 * driver 580.159.04, where all of these are one pointer). A driver that says something else of a stream, or of the
 * green context nothing, is not relied on: when a green context ends there, each stream may have ended, and from then
 * on none is asked, and each launch has its event (cuda_capture_for_ever()).
 *
 * A green context keeps its device's primary context, so the last one of both kinds of users ends it. With a reset of
 * the primary context green contexts end, too: this is assumed, and not seen.
 *
 * Thread safety: all of it from any thread.
 */

#include <stdbool.h>

#include "shim/cuda/cuda-abi.h"

/* A user of the primary context has got it. */
void cuda_context_retained(CudaContext primary, CudaDevice device);

/* A user of the primary context leaves it, or it is about to be reset; and after that call, whether that was done. */
void cuda_context_leave_primary(CudaDevice device);
void cuda_context_left_primary(CudaDevice device, bool released);

/* A green context was made, and a stream for it. */
void cuda_context_green(CudaGreen green, CudaDevice device);
void cuda_context_green_stream(CudaGreen green, CudaStream stream);

/* What may end with a green context. */
typedef struct CudaGreenEnd {
        CudaContext context; /* NULL: not known */
        CudaContext primary; /* NULL: it has other users */
        CudaDevice device;
        const void *record;
        uint64_t serial;
} CudaGreenEnd;

/* A green context is about to be destroyed, and whether it was. */
void cuda_context_leave_green(CudaGreen green, CudaGreenEnd *ret);
void cuda_context_left_green(const CudaGreenEnd *e, bool destroyed);
