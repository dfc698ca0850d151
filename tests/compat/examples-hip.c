/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * examples.c with HIP, on the simulated GPU, which executes no instructions: a launch is a copy to the device
 *
 * Each copy writes the launch's number over those of earlier launches, and into a place of its own behind them. So a
 * copy that is missing, doubled or late is noticed.
 */

#include <hip/hip_runtime_api.h>
#include <limits.h>
#include <pthread.h>

#include "examples.h"

#include "xsched/hip/hal.h"

#define N_MAX (2 * LAUNCHES)

const bool runtime_has_gates = true;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool released;

typedef struct Buffer {
        unsigned *gpu;
        unsigned source[N_MAX][N_MAX]; /* of each launch; in memory that the copy reads later */
        unsigned back[N_MAX];          /* what was read back */
} Buffer;

void runtime_open(void) {
        CHECK(hipInit(0) == hipSuccess && hipSetDevice(0) == hipSuccess);
}

void runtime_close(void) {
        CHECK(hipDeviceSynchronize() == hipSuccess);
}

void runtime_stream(Stream *s) {
        hipStream_t stream;
        Buffer *b;

        CHECK(hipStreamCreate(&stream) == hipSuccess);
        CHECK(hipHostMalloc((void **) &b, sizeof(*b), hipHostMallocDefault) == hipSuccess);
        memset(b, 0, sizeof(*b));
        CHECK(hipMalloc((void **) &b->gpu, sizeof(b->source[0])) == hipSuccess);
        CHECK(hipMemcpyAsync(b->gpu, b->source[0], sizeof(b->source[0]), hipMemcpyHostToDevice, stream) == hipSuccess);
        CHECK(hipStreamSynchronize(stream) == hipSuccess);
        s->queue = stream;
        s->buffer = b;
        CHECK(HipQueueCreate(&s->hwq, stream) == kXSchedSuccess);
}

void runtime_stream_end(Stream *s) {
        Buffer *b = s->buffer;

        CHECK(hipFree(b->gpu) == hipSuccess && hipHostFree(b) == hipSuccess);
        CHECK(hipStreamDestroy(s->queue) == hipSuccess);
}

static void wait_for_host(hipStream_t stream, hipError_t status, void *unused) {
        (void) pthread_mutex_lock(&lock);
        while (!released)
                (void) pthread_cond_wait(&changed, &lock);
        (void) pthread_mutex_unlock(&lock);
}

void runtime_launch(Stream *s, bool occupy) {
        Buffer *b = s->buffer;
        unsigned n = s->n + 1;

        CHECK(n <= N_MAX);
        if (occupy)
                CHECK(hipStreamAddCallback(s->queue, wait_for_host, NULL, 0) == hipSuccess);
        for (unsigned i = 0; i < n; i++)
                b->source[n - 1][i] = n;
        CHECK(hipMemcpyAsync(b->gpu, b->source[n - 1], n * sizeof(unsigned), hipMemcpyHostToDevice, s->queue) ==
                        hipSuccess);
}

void runtime_release(void) {
        (void) pthread_mutex_lock(&lock);
        released = true;
        (void) pthread_cond_broadcast(&changed);
        (void) pthread_mutex_unlock(&lock);
}

void runtime_finish(const Stream *s) {
        CHECK(hipStreamSynchronize(s->queue) == hipSuccess);
}

#define NOT_READ UINT_MAX
#define TRIES    1000

/* HIP keeps one engine for a stream's copies in either direction until the stream is idle, and copies back with a
 * kernel before: simulated GPUs execute none. A thread of HIP's own finds the stream idle, a moment after its end. So a
 * copy that has written nothing is repeated. */
void runtime_expect(const Stream *s) {
        Buffer *b = s->buffer;

        runtime_finish(s);
        for (unsigned i = 0; i < TRIES && (i == 0 || b->back[0] == NOT_READ); i++) {
                for (unsigned k = 0; k < N_MAX; k++)
                        b->back[k] = NOT_READ;
                CHECK(hipMemcpyAsync(b->back, b->gpu, sizeof(b->back), hipMemcpyDeviceToHost, s->queue) == hipSuccess);
                CHECK(hipStreamSynchronize(s->queue) == hipSuccess);
        }
        for (unsigned i = 0; i < N_MAX; i++)
                CHECK(b->back[i] == (i < s->n ? s->n : 0));
}
