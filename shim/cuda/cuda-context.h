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
 * The driver does not wait for the work of a green context that it destroys, and events go on (seen with the same one).
 * So each queue with launches in flight gets a mark before, and is counted until that is reached, or the primary
 * context has ended, with which the events end.
 *
 * A green context keeps its device's primary context, so the last one of both kinds of users ends it. The driver does
 * not reset a primary context with green ones (seen); one that does is assumed to end them, too.
 *
 * A thread may retain a primary context anew, and get the handles of the former's streams, as soon as it has ended. So
 * the former's queues are hidden while it may end: when it is reset, or its last user leaves it. That it was reset, the
 * driver says; that its last user was the last is asked for after the call. If another thread has it again by then, it
 * seems not to have ended; but that thread has got another one, with a number of its own (cuCtxGetId(), CUDA 12), and
 * tells.
 *
 * A signal's handler may jump out of the call that ends a context, and then nobody says whether it has ended. The same
 * thread takes its queues for ended when it comes back and the frame of that call is gone: their events may be gone,
 * too, and must not be asked for.
 *
 * Thread safety: all of it from any thread.
 */

#include <stdbool.h>

#include "shim/cuda/cuda-abi.h"

/* A bit that stands for a call that may end contexts (cuda_queue_leaver()). `frame`: of the hook. */
uint32_t cuda_context_leaver(const void *frame);
void cuda_context_leaver_free(uint32_t by);

/* What a jump out of such a call has left. */
void cuda_context_look_for_left(const void *frame);

/* A user of the primary context has got it. `frame`: of the hook. */
void cuda_context_retained(CudaContext primary, CudaDevice device, const void *frame);

/* What may end with a primary context. */
typedef struct CudaPrimaryEnd {
        CudaDevice device;
        uint32_t by; /* cuda_context_leaver() */
        bool resets;
        bool is_last; /* no user stays */
        int n_users;  /* that leave it */
        uint64_t serial;
} CudaPrimaryEnd;

/* A user of the primary context leaves it, or it is about to be reset; and after that call, whether that was done. */
void cuda_context_leave_primary(CudaDevice device, bool resets, const void *frame, CudaPrimaryEnd *ret);
void cuda_context_left_primary(const CudaPrimaryEnd *e, bool done);

/* A green context was made, and a stream for it. */
void cuda_context_green(CudaGreen green, CudaDevice device);
void cuda_context_green_stream(CudaGreen green, CudaStream stream);

/* What may end with a green context. */
typedef struct CudaGreenEnd {
        CudaContext context; /* NULL: not known */
        CudaContext primary; /* NULL: it has other users, or is not known */
        bool is_last;        /* it has none */
        CudaDevice device;
        uint32_t by; /* cuda_context_leaver() */
        uint64_t epoch;
        const void *record;
        uint64_t serial;
} CudaGreenEnd;

/* A green context is about to be destroyed, and whether it was. */
void cuda_context_leave_green(CudaGreen green, const void *frame, CudaGreenEnd *ret);
void cuda_context_left_green(const CudaGreenEnd *e, bool destroyed);
