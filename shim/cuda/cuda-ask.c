/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asking the driver what is complete
 */

#include "shim/cuda/cuda-ask.h"

#include "common/nap.h"
#include "common/signal-mask.h"
#include "shim/cuda/cuda-next.h"

#define USE_MAX_NS  (10 * NSEC_PER_SEC)
#define USE_LOOK_NS (50 * NSEC_PER_USEC)

bool cuda_stream_use(CudaQueue *q) {
        atomic_store(&q->in_use, true);
        if (likely(!atomic_load(&q->dropped)))
                return true;
        atomic_store(&q->in_use, false);
        return false;
}

void cuda_stream_unuse(CudaQueue *q) {
        atomic_store(&q->in_use, false);
}

void cuda_stream_await_unused(const CudaQueue *q) {
        uint64_t until = now_ns() + USE_MAX_NS;

        while (atomic_load(&q->in_use) && now_ns() < until)
                nap(USE_LOOK_NS);
}

/* Whether the call was refused for this thread just now, which says nothing about the work. */
static bool is_refusal(CudaResult r) {
        return r == CUDA_RESULT_NOT_PERMITTED || (r >= CUDA_RESULT_CAPTURE_FIRST && r <= CUDA_RESULT_CAPTURE_LAST);
}

bool cuda_is_pending(CudaResult r) {
        return r == CUDA_RESULT_NOT_READY || is_refusal(r);
}

bool cuda_ask_event(CudaEvent event, bool *ret) {
        CudaResult r = CUDA_CALL(cuEventQuery, CudaResult(*)(CudaEvent), event);

        *ret = r == CUDA_RESULT_SUCCESS;
        return *ret || cuda_is_pending(r);
}

/* Queries a default stream by its context. */
static CudaResult stream_query_now(const CudaQueue *q) {
        CudaContext popped;

        if (q->stream)
                return CUDA_CALL(cuStreamQuery, CudaResult(*)(CudaStream), q->stream);
        if (CUDA_CALL(cuCtxPushCurrent_v2, CudaResult(*)(CudaContext), q->context) != CUDA_RESULT_SUCCESS)
                return CUDA_RESULT_NOT_READY;
        CudaResult r = CUDA_CALL(cuStreamQuery, CudaResult(*)(CudaStream), NULL);
        (void) CUDA_CALL(cuCtxPopCurrent_v2, CudaResult(*)(CudaContext *), &popped);
        return r;
}

CudaResult cuda_ask_stream(CudaQueue *q) {
        if (q->own_default || q->gone || q->lost || !cuda_ask_begin())
                return CUDA_RESULT_NOT_READY;
        SIGNALS_BLOCKED;
        CudaResult r = CUDA_RESULT_NOT_READY;
        if (cuda_stream_use(q)) {
                r = stream_query_now(q);
                cuda_stream_unuse(q);
        }
        cuda_ask_end();
        return r;
}
