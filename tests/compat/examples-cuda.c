/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * examples.c with CUDA, on tests/cuda/fake-cuda.c
 */

#include <pthread.h>

#include "tests/cuda/fake-cuda.h"

#include "examples.h"

#include "xsched/cuda/hal.h"

#define N 64U

const bool runtime_has_gates = true;

static void *triple;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool released;

void runtime_open(void) {
        struct Context *context;

        CHECK(cuInit(0) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
        CHECK(cuModuleGetFunction(&triple, NULL, "triple") == 0);
}

void runtime_close(void) {
        CHECK(cuCtxSynchronize() == 0);
        CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
}

void runtime_stream(Stream *s) {
        FakeStream stream;
        uint64_t memory;
        CUstream again;
        HwQueueHandle hwq;

        CHECK(cuStreamCreate(&stream, 1) == 0);
        CHECK(cuMemAlloc_v2(&memory, N * sizeof(int)) == 0);
        s->queue = stream;
        s->buffer = (void *) (uintptr_t) memory;
        again = (CUstream) s->queue;
        CHECK(CudaQueueCreate(&s->hwq, again) == kXSchedSuccess);
        CHECK(CudaQueueGet(&hwq, again) == kXSchedSuccess && hwq == s->hwq);
}

void runtime_stream_end(Stream *s) {
        CHECK(cuMemFree_v2((uint64_t) (uintptr_t) s->buffer) == 0);
        CHECK(cuStreamDestroy_v2(s->queue) == 0);
}

static void wait_for_host(void *unused) {
        (void) pthread_mutex_lock(&lock);
        while (!released)
                (void) pthread_cond_wait(&changed, &lock);
        (void) pthread_mutex_unlock(&lock);
}

void runtime_launch(Stream *s, bool occupy) {
        struct Context *context;
        int *a = s->buffer, k = (int) s->n;
        unsigned n = N;
        uint64_t ns = 0;
        void *params[] = {&a, &k, &n, &ns};

        /* New threads have no context; but the library's thread, which launches commands, has the stream's. */
        CHECK(cuStreamGetCtx(s->queue, &context) == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
        if (occupy)
                CHECK(cuLaunchHostFunc(s->queue, wait_for_host, NULL) == 0);
        CHECK(cuLaunchKernel(triple, 1, 1, 1, N, 1, 1, 0, s->queue, params, NULL) == 0);
}

void runtime_release(void) {
        (void) pthread_mutex_lock(&lock);
        released = true;
        (void) pthread_cond_broadcast(&changed);
        (void) pthread_mutex_unlock(&lock);
}

void runtime_finish(const Stream *s) {
        CHECK(cuStreamSynchronize(s->queue) == 0);
}

void runtime_expect(const Stream *s) {
        int expected = 0, a[N];

        for (unsigned i = 0; i < s->n; i++)
                expected = (int) ((unsigned) expected * 3 + i);
        CHECK(cuMemcpyDtoHAsync_v2(a, (uint64_t) (uintptr_t) s->buffer, sizeof(a), s->queue) == 0);
        CHECK(cuStreamSynchronize(s->queue) == 0);
        for (unsigned i = 0; i < N; i++)
                CHECK(a[i] == expected);
}
