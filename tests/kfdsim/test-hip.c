/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Debian's own HIP on simulated GPUs: it starts, has streams and events, calls the host in order, and its copies arrive
 *
 * "test-hip MODEL..." expects these GPUs. Calls for which HIP uses kernels of its own (hipMemset, copies within a GPU)
 * have no effect here, because the simulator executes no instructions; they only have to end. TAP.
 */

#include <hip/hip_runtime_api.h>
#include <stdio.h>

#include "common/macro.h"

#define SMALL   256U
#define LARGE   ((size_t) 5 << 20) /* several SDMA packets, and several turns of HIP's own staging buffer */
#define N_CALLS 20U
#define PATTERN 251U /* a prime, so that no block of a copy looks like another */

static unsigned n_tests, n_failed;

static void check(bool ok, const char *what, int device) {
        n_failed += !ok;
        printf("%sok %u - GPU %d: %s\n", ok ? "" : "not ", ++n_tests, device, what);
        (void) fflush(stdout);
}

static void test_properties(int device, const char *model) {
        hipDeviceProp_t p;

        check(hipGetDeviceProperties(&p, device) == hipSuccess, "properties", device);
        const char *name = startswith(p.name, "kfdsim "), *arch = startswith(p.gcnArchName, model);
        check(name && streq(name, model) && arch && (*arch == 0 || *arch == ':'), "name", device);
        check(p.pciBusID == device + 1 && p.multiProcessorCount > 0 && p.totalGlobalMem > 0, "PCI bus, size", device);
}

static void fill(uint8_t *p, size_t n, unsigned seed) {
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t) ((i + seed) % PATTERN);
}

/* Copies to the GPU and back, from and to memory of the host that the GPU knows (pinned), or does not. */
static bool copies(hipStream_t stream, uint8_t *host, size_t n, unsigned seed) {
        uint8_t *gpu = NULL;

        if (hipMalloc((void **) &gpu, n) != hipSuccess)
                return false;
        fill(host, n, seed);
        bool ok = hipMemcpyAsync(gpu, host, n, hipMemcpyHostToDevice, stream) == hipSuccess &&
                        hipStreamSynchronize(stream) == hipSuccess;
        memset(host, 0, n);
        ok = ok && hipMemcpyAsync(host, gpu, n, hipMemcpyDeviceToHost, stream) == hipSuccess &&
                        hipStreamSynchronize(stream) == hipSuccess;
        for (size_t i = 0; i < n; i++)
                ok = ok && host[i] == (i + seed) % PATTERN;
        return hipFree(gpu) == hipSuccess && ok;
}

static void test_copies(hipStream_t stream, int device) {
        uint8_t *pinned = NULL, *plain = malloc(LARGE);

        check(plain && hipHostMalloc((void **) &pinned, LARGE, hipHostMallocDefault) == hipSuccess, "host memory",
                        device);
        if (!plain || !pinned)
                return;
        check(copies(stream, plain, SMALL, 1), "small copies", device);
        check(copies(stream, plain, LARGE, 2), "large copies", device);
        check(copies(stream, pinned, SMALL, 3), "small copies, pinned", device);
        check(copies(stream, pinned, LARGE, 4), "large copies, pinned", device);
        check(hipHostFree(pinned) == hipSuccess, "hipHostFree", device);
        free(plain);
}

/* A rectangle of a picture in memory of the host, and where it goes to. */
typedef struct Rect {
        size_t width, height, depth, pitch; /* bytes, rows, slices */
} Rect;

static size_t rect_size(const Rect *r) {
        return r->pitch * r->height * r->depth;
}

static bool rect_copy(const Rect *r, void *to, size_t to_pitch, const void *from, size_t from_pitch, hipMemcpyKind kind,
                hipStream_t stream) {
        if (r->depth == 1)
                return hipMemcpy2DAsync(to, to_pitch, from, from_pitch, r->width, r->height, kind, stream) ==
                                hipSuccess &&
                                hipStreamSynchronize(stream) == hipSuccess;
        hipMemcpy3DParms p = {
                        .srcPtr = make_hipPitchedPtr((void *) (uintptr_t) from, from_pitch, r->width, r->height),
                        .dstPtr = make_hipPitchedPtr(to, to_pitch, r->width, r->height),
                        .extent = make_hipExtent(r->width, r->height, r->depth),
                        .kind = kind,
        };
        return hipMemcpy3DAsync(&p, stream) == hipSuccess && hipStreamSynchronize(stream) == hipSuccess;
}

/* Copies to the GPU and back. Bytes beside the rectangle do not change. */
static bool rects(hipStream_t stream, uint8_t *host, const Rect *r) {
        size_t n = rect_size(r), gpu_pitch = r->width + 64 - r->width % 4;
        uint8_t *gpu = NULL;

        if (hipMalloc((void **) &gpu, gpu_pitch * r->height * r->depth) != hipSuccess)
                return false;
        fill(host, n, 5);
        bool ok = rect_copy(r, gpu, gpu_pitch, host, r->pitch, hipMemcpyHostToDevice, stream);
        memset(host, PATTERN, n);
        ok = ok && rect_copy(r, host, r->pitch, gpu, gpu_pitch, hipMemcpyDeviceToHost, stream);
        for (size_t i = 0; i < n; i++)
                ok = ok && host[i] == (i % r->pitch < r->width ? (i + 5) % PATTERN : PATTERN);
        return hipFree(gpu) == hipSuccess && ok;
}

static void test_rects(hipStream_t stream, int device) {
        static const Rect shapes[] = {
                        {.width = 64, .height = 8, .depth = 1, .pitch = 256},
                        {.width = 1000, .height = 300, .depth = 1, .pitch = 1024},
                        {.width = 997, .height = 31, .depth = 1, .pitch = 1004},
                        {.width = 70000, .height = 3, .depth = 1, .pitch = 70004}, /* several packets a row */
                        {.width = 16, .height = 20000, .depth = 1, .pitch = 32},   /* several by rows */
                        {.width = 48, .height = 5, .depth = 7, .pitch = 64},
        };
        uint8_t *pinned = NULL, *plain = malloc(LARGE);
        bool ok[2] = {true, true};

        check(plain && hipHostMalloc((void **) &pinned, LARGE, hipHostMallocDefault) == hipSuccess,
                        "host memory for rectangles", device);
        if (!plain || !pinned)
                return;
        for (size_t i = 0; i < ELEMENTSOF(shapes); i++) {
                ok[0] &= rects(stream, plain, shapes + i);
                ok[1] &= rects(stream, pinned, shapes + i);
        }
        check(ok[0], "rectangles", device);
        check(ok[1], "rectangles, pinned", device);
        check(hipHostFree(pinned) == hipSuccess, "hipHostFree of rectangles", device);
        free(plain);
}

static void test_events(hipStream_t stream, int device) {
        hipEvent_t begin = NULL, end = NULL;
        float ms = -1;

        bool ok = hipEventCreateWithFlags(&begin, hipEventDefault) == hipSuccess &&
                        hipEventCreateWithFlags(&end, hipEventBlockingSync) == hipSuccess;
        check(ok && hipEventRecord(begin, stream) == hipSuccess && hipEventRecord(end, stream) == hipSuccess &&
                                        hipEventSynchronize(end) == hipSuccess && hipEventQuery(begin) == hipSuccess,
                        "events", device);
        check(ok && hipEventElapsedTime(&ms, begin, end) == hipSuccess && ms >= 0, "time between them", device);
        check(hipEventDestroy(begin) == hipSuccess && hipEventDestroy(end) == hipSuccess, "hipEventDestroy", device);
}

/* The host's calls so far. At each call, exactly the work before it in its stream has to be done. */
typedef struct Calls {
        unsigned n;
        bool in_order;
} Calls;

typedef struct Call {
        Calls *calls;
        unsigned number;
} Call;

static void on_call(void *userdata) {
        const Call *c = userdata;

        c->calls->in_order &= c->calls->n == c->number;
        c->calls->n++;
}

static void on_stream_call(hipStream_t stream, hipError_t status, void *userdata) {
        on_call(userdata);
}

/* Debian 12's HIP declares hipLaunchHostFunc(), and lacks it. */
#pragma weak hipLaunchHostFunc

static bool call_host(hipStream_t stream, Call *c) {
        if (hipLaunchHostFunc && c->number % 2 == 0)
                return hipLaunchHostFunc(stream, on_call, c) == hipSuccess;
        return hipStreamAddCallback(stream, on_stream_call, c, 0) == hipSuccess;
}

/* Between two streams, one of which waits for the other in the middle. */
static void test_host_calls(hipStream_t stream, int device) {
        hipStream_t other = NULL;
        hipEvent_t middle = NULL;
        Calls calls = {.in_order = true};
        Call call[N_CALLS];

        bool ok = hipStreamCreate(&other) == hipSuccess &&
                        hipEventCreateWithFlags(&middle, hipEventDisableTiming) == hipSuccess;
        for (unsigned i = 0; ok && i < N_CALLS; i++) {
                call[i] = (Call){.calls = &calls, .number = i};
                if (i == N_CALLS / 2)
                        ok = hipEventRecord(middle, stream) == hipSuccess &&
                                        hipStreamWaitEvent(other, middle, 0) == hipSuccess;
                ok = ok && call_host(i < N_CALLS / 2 ? stream : other, call + i);
        }
        ok = ok && hipStreamSynchronize(other) == hipSuccess && hipStreamSynchronize(stream) == hipSuccess;
        check(ok && calls.n == N_CALLS && calls.in_order, "calls of the host, in order", device);
        check(hipEventDestroy(middle) == hipSuccess && hipStreamDestroy(other) == hipSuccess,
                        "a stream and an event more", device);
}

/* By a kernel: it ends. */
static void test_fill(hipStream_t stream, int device) {
        void *gpu = NULL;

        check(hipMalloc(&gpu, SMALL) == hipSuccess && hipMemsetAsync(gpu, 1, SMALL, stream) == hipSuccess &&
                                        hipStreamSynchronize(stream) == hipSuccess && hipFree(gpu) == hipSuccess,
                        "hipMemset ends", device);
}

static void test_device(int device, const char *model) {
        hipStream_t stream = NULL;

        test_properties(device, model);
        bool ok = hipSetDevice(device) == hipSuccess && hipStreamCreate(&stream) == hipSuccess;
        check(ok, "hipStreamCreate", device);
        if (!ok)
                return;
        test_events(stream, device);
        test_copies(stream, device);
        test_rects(stream, device);
        test_host_calls(stream, device);
        test_fill(stream, device);
        check(hipDeviceSynchronize() == hipSuccess, "hipDeviceSynchronize", device);
        check(hipStreamDestroy(stream) == hipSuccess, "hipStreamDestroy", device);
}

int main(int argc, char *argv[]) {
        int n = 0;

        if (hipInit(0) != hipSuccess || hipGetDeviceCount(&n) != hipSuccess) {
                puts("Bail out! hipInit");
                return EXIT_FAILURE;
        }
        check(n == argc - 1, "as many GPUs as expected", n);
        for (int i = 0; i < n && i + 1 < argc; i++)
                test_device(i, argv[i + 1]);
        printf("1..%u\n", n_tests);
        return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
