/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Captures, by the streams that they began on
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"

#define ORIGINS_MAX 64U

typedef struct Origin {
        CudaStream stream;
        CudaContext context;
} Origin;

_Atomic uint32_t cuda_n_captures;

static _Atomic uint32_t n_asking;
static pthread_mutex_t origins_lock = PTHREAD_MUTEX_INITIALIZER;
static Origin origins[ORIGINS_MAX];
static uint32_t n_origins;

/* A query takes about a microsecond, and no new one begins while the number of captures is not 0. */
static void wait_for_askers(void) {
        while (atomic_load(&n_asking) > 0)
                (void) sched_yield();
}

bool cuda_ask_begin(void) {
        atomic_fetch_add(&n_asking, 1);
        if (atomic_load(&cuda_n_captures) == 0)
                return true;
        atomic_fetch_sub(&n_asking, 1);
        return false;
}

void cuda_ask_end(void) {
        atomic_fetch_sub(&n_asking, 1);
}

void cuda_capture_begins(CudaStream stream) {
        CudaContext context = NULL;

        (void) CUDA_CALL(cuCtxGetCurrent, CudaResult(*)(CudaContext *), &context);
        (void) pthread_mutex_lock(&origins_lock);
        /* Captures that find no room count for ever. */
        if (n_origins < ORIGINS_MAX)
                origins[n_origins++] = (Origin){.stream = stream, .context = context};
        atomic_fetch_add(&cuda_n_captures, 1);
        (void) pthread_mutex_unlock(&origins_lock);
        wait_for_askers();
}

static void drop(CudaStream stream, CudaContext context) {
        (void) pthread_mutex_lock(&origins_lock);
        for (uint32_t i = 0; i < n_origins;) {
                if ((!context && origins[i].stream == stream) || (context && origins[i].context == context)) {
                        origins[i] = origins[--n_origins];
                        atomic_fetch_sub(&cuda_n_captures, 1);
                } else
                        i++;
        }
        (void) pthread_mutex_unlock(&origins_lock);
}

/* Ask the driver: a failed call may end a capture, or not. */
void cuda_capture_look(CudaStream stream) {
        int capturing = 1;

        if (CUDA_CALL(cuStreamIsCapturing, CudaResult(*)(CudaStream, int *), stream, &capturing) ==
                                        CUDA_RESULT_SUCCESS &&
                        capturing == 0)
                drop(stream, NULL);
}

void cuda_capture_drop_stream(CudaStream stream) {
        if (atomic_load(&cuda_n_captures) > 0)
                drop(stream, NULL);
}

void cuda_capture_drop_context(CudaContext context) {
        if (context && atomic_load(&cuda_n_captures) > 0)
                drop(NULL, context);
}

void cuda_capture_for_ever(void) {
        atomic_fetch_add(&cuda_n_captures, 1);
        wait_for_askers();
}

void cuda_capture_forget(void) {
        origins_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        n_origins = 0;
        atomic_store(&cuda_n_captures, 0);
        atomic_store(&n_asking, 0);
}
