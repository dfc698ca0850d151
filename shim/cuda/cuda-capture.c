/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Captures, by the streams that they began on
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "common/array.h"
#include "common/signal-mask.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-stack.h"

/* Each thread has a per-thread default stream of its own, all by the same handle. */
typedef struct Origin {
        CudaStream stream;
        CudaContext context;
        const void *thread; /* of a per-thread default stream; NULL: of any other */
        bool leaves;        /* its stream or context is being destroyed */
} Origin;

_Atomic uint32_t cuda_n_captures;

static _Thread_local char this_thread __attribute__((tls_model("initial-exec")));
static _Atomic uint32_t n_asking, n_cig;
static pthread_mutex_t origins_lock = PTHREAD_MUTEX_INITIALIZER;
static Origin *origins;
static size_t n_origins, origins_room;

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

/* --- the mode of a thread --- */

_Thread_local const void *cuda_capture_relaxed __attribute__((tls_model("initial-exec")));
static _Thread_local int mode_before __attribute__((tls_model("initial-exec")));

static int exchange_mode(int mode) {
        (void) CUDA_CALL(cuThreadExchangeStreamCaptureMode, CudaResult(*)(int *), &mode);
        return mode;
}

/* Stacks grow down: a frame at a lower or equal address has ended. */
static bool was_left(const void *frame) {
        return cuda_capture_relaxed && (uintptr_t) cuda_capture_relaxed <= (uintptr_t) frame && !cuda_on_other_stack();
}

/* NULL: this is a handler that has interrupted another call of this function, which restores the mode. */
const void *cuda_capture_relax(const void *frame) {
        if (was_left(frame)) {
                cuda_capture_relaxed = frame;
                return frame;
        }
        if (cuda_capture_relaxed)
                return NULL;
        mode_before = exchange_mode(CUDA_CAPTURE_MODE_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
        cuda_capture_relaxed = frame;
        return frame;
}

void cuda_capture_unrelax(const void *const *frame) {
        if (!*frame)
                return;
        (void) exchange_mode(mode_before);
        atomic_signal_fence(memory_order_seq_cst);
        cuda_capture_relaxed = NULL;
}

void cuda_capture_look_back_slow(const void *frame) {
        if (was_left(frame))
                cuda_capture_unrelax(&frame);
}

/* --- captures --- */

static CudaStream own_default(void) {
        return (CudaStream) (uintptr_t) CUDA_STREAM_PER_THREAD;
}

static Origin origin_of(CudaStream stream, bool per_thread) {
        Origin o = {.stream = !stream && per_thread ? own_default() : stream};

        if (o.stream == own_default())
                o.thread = &this_thread;
        return o;
}

/* A handler of a signal may jump out of what it interrupts: the lock would stay taken. */
void cuda_capture_begins(CudaStream stream, bool per_thread) {
        Origin o = origin_of(stream, per_thread);

        cuda_capture_look_back(__builtin_frame_address(0));
        if (CUDA_CALL(cuStreamGetCtx, CudaResult(*)(CudaStream, CudaContext *), o.stream, &o.context) !=
                        CUDA_RESULT_SUCCESS)
                o.context = NULL;
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&origins_lock);
        Origin *p = array_reserve(origins, &origins_room, n_origins + 1, sizeof(Origin));
        if (p) { /* without memory it counts for ever */
                origins = p;
                origins[n_origins++] = o;
        }
        atomic_fetch_add(&cuda_n_captures, 1);
        (void) pthread_mutex_unlock(&origins_lock);
        wait_for_askers();
}

static bool is_of(const Origin *o, const Origin *wanted) {
        return wanted->context ? o->context == wanted->context
                               : o->stream == wanted->stream && o->thread == wanted->thread;
}

static void origin_remove(size_t i) {
        origins[i] = origins[--n_origins];
        atomic_fetch_sub(&cuda_n_captures, 1);
}

/* All captures that began on a stream, or on any stream of a context. */
static void drop(Origin wanted) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&origins_lock);
        for (size_t i = 0; i < n_origins;) {
                if (is_of(&origins[i], &wanted))
                        origin_remove(i);
                else
                        i++;
        }
        (void) pthread_mutex_unlock(&origins_lock);
}

/* Ask the driver: a failed call may end a capture, or not. Of the legacy default stream it does not say while it
 * captures a stream that waits for it; but that one itself is never captured. */
void cuda_capture_look(CudaStream stream, bool per_thread) {
        Origin o = origin_of(stream, per_thread);
        int capturing = 1;

        CudaResult r = CUDA_CALL(cuStreamIsCapturing, CudaResult(*)(CudaStream, int *), o.stream, &capturing);
        if (r == CUDA_RESULT_CAPTURE_IMPLICIT || (r == CUDA_RESULT_SUCCESS && capturing == 0))
                drop(o);
}

void cuda_capture_cig_begins(void) {
        atomic_fetch_add(&n_cig, 1);
        atomic_fetch_add(&cuda_n_captures, 1);
        wait_for_askers();
}

void cuda_capture_cig_ended(void) {
        uint32_t n = atomic_load(&n_cig);

        while (n > 0 && !atomic_compare_exchange_weak(&n_cig, &n, n - 1))
                ;
        if (n > 0)
                atomic_fetch_sub(&cuda_n_captures, 1);
}

bool cuda_is_captured(CudaStream stream, bool per_thread) {
        int capturing = 0;

        if (atomic_load(&n_cig) > 0)
                return true;
        return CUDA_CALL(cuStreamIsCapturing, CudaResult(*)(CudaStream, int *), origin_of(stream, per_thread).stream,
                               &capturing) == CUDA_RESULT_SUCCESS &&
                        capturing != 0;
}

static void leave(Origin wanted) {
        if (atomic_load(&cuda_n_captures) == 0)
                return;
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&origins_lock);
        for (size_t i = 0; i < n_origins; i++)
                origins[i].leaves |= is_of(&origins[i], &wanted);
        (void) pthread_mutex_unlock(&origins_lock);
}

/* Only what began before the call. */
static void left(Origin wanted, bool destroyed) {
        if (atomic_load(&cuda_n_captures) == 0)
                return;
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&origins_lock);
        for (size_t i = 0; i < n_origins;) {
                bool leaves = origins[i].leaves && is_of(&origins[i], &wanted);
                if (leaves && destroyed)
                        origin_remove(i);
                else
                        origins[i++].leaves &= !leaves;
        }
        (void) pthread_mutex_unlock(&origins_lock);
}

void cuda_capture_leave_stream(CudaStream stream) {
        leave((Origin){.stream = stream});
}

void cuda_capture_left_stream(CudaStream stream, bool destroyed) {
        left((Origin){.stream = stream}, destroyed);
}

void cuda_capture_leave_context(CudaContext context) {
        if (context)
                leave((Origin){.context = context});
}

void cuda_capture_left_context(CudaContext context, bool destroyed) {
        if (context)
                left((Origin){.context = context}, destroyed);
}

void cuda_capture_for_ever(void) {
        atomic_fetch_add(&cuda_n_captures, 1);
        wait_for_askers();
}

void cuda_capture_forget(void) {
        origins_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        origins = NULL; /* another thread may have been about to let it grow */
        n_origins = origins_room = 0;
        atomic_store(&n_cig, 0);
        atomic_store(&cuda_n_captures, 0);
        atomic_store(&n_asking, 0);
}
