/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer's functions in front of libcuda's
 *
 * Each has libcuda's own name, so that a program that is linked with libcuda finds it first, and a second, hidden name
 * for callers that ask by dlsym() or cuGetProcAddress(): cuda-next.h.
 */

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-context.h"
#include "shim/cuda/cuda-launch.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-track.h"
#include "shim/cuda/cuda-unknown.h"

#define DEVICES_MAX 64

/* PARAMS and ARGS with their brackets. */
#define HOOK(name, PARAMS)                                                                                             \
        CudaResult name PARAMS;                                                                                        \
        _hidden_ CudaResult cuda_hook_##name PARAMS __attribute__((alias(#name)));                                     \
        _public_                                                                                                       \
        CudaResult name PARAMS

/* Of the hook: cuda-begun.h. */
#define FRAME __builtin_frame_address(0)

#define NEXT(name, TYPES, ...) CUDA_CALL(name, CudaResult(*) TYPES, __VA_ARGS__)

/* --- look-ups --- */

/* Our function by a hidden name, which no other library can override. */
#define HOOKED(name)
#define COUNTED(name) extern _hidden_ char cuda_hook_##name[];
#define HELPER(name)
#include "shim/cuda/cuda-entries.h"
#undef HOOKED
#undef COUNTED
#undef HELPER
static void *hook_of(CudaEntry e);

/* The function that the application gets in place of `address`, which `caller` was given for `name`. */
static void *replace(void *address, const char *name, const void *caller) {
        CudaEntry e = cuda_entry_at(address, caller);

        if (e == _CUDA_ENTRY_MAX && name && cuda_is_given(address, caller))
                return cuda_unknown_replace(address, name);
        return hook_of(e) ?: address;
}

/* Fails with the message for dlerror(). libc has no such function. */
static void *not_found(const char *name) {
        CudaDlsym f = cuda_real_dlsym();
        void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

        return libc && f ? f(libc, name) : NULL;
}

/* Called by cuda-thunk.S. All names of libcuda begin like this; the address tells those of other libraries. */
_hidden_ void *cuda_dlsym(void *handle, const char *name);

/* `address`: what the next dlsym() has found. */
static void *looked_up(void *address, const char *name, const void *caller) {
        if (!address || name[0] != 'c' || name[1] != 'u')
                return address;
        /* A caller that finds us would have found libcuda, or nothing. */
        CudaEntry ours = cuda_entry_named(name);
        if (address == hook_of(ours))
                return cuda_is_there() ? address : not_found(name);
        return replace(address, name, caller);
}

void *cuda_dlsym(void *handle, const char *name) {
        return looked_up(CUDA_CALL(dlsym, CudaDlsym, handle, name), name, __builtin_return_address(0));
}

/* The same for RTLD_DEFAULT, which also means the libraries that the caller's own was loaded with (RTLD_LOCAL). We do
 * not see those. What we do not find is left to a call that comes from the caller; and that finds what we have a
 * function for by our own. */
typedef struct Found {
        void *address;
        bool known;
} Found;

_hidden_ Found cuda_dlsym_default(const char *name, const void *caller);

Found cuda_dlsym_default(const char *name, const void *caller) {
        void *address = CUDA_CALL(dlsym, CudaDlsym, RTLD_DEFAULT, name);

        return (Found){.address = looked_up(address, name, caller), .known = address};
}

typedef CudaResult (*ProcAddress)(const char *name, void **ret, int version, uint64_t flags);
typedef CudaResult (*ProcAddressV2)(const char *name, void **ret, int version, uint64_t flags, void *ret_status);

HOOK(cuGetProcAddress, (const char *name, void **ret, int version, uint64_t flags)) {
        CudaResult r = CUDA_CALL(cuGetProcAddress, ProcAddress, name, ret, version, flags);

        if (r == CUDA_RESULT_SUCCESS && ret)
                *ret = replace(*ret, name, __builtin_return_address(0));
        return r;
}

HOOK(cuGetProcAddress_v2, (const char *name, void **ret, int version, uint64_t flags, void *ret_status)) {
        CudaResult r = CUDA_CALL(cuGetProcAddress_v2, ProcAddressV2, name, ret, version, flags, ret_status);

        if (r == CUDA_RESULT_SUCCESS && ret)
                *ret = replace(*ret, name, __builtin_return_address(0));
        return r;
}

/* --- launches --- */

static inline double queue_to(CudaQueue *q) {
        double d;

        memcpy(&d, &q, sizeof(d));
        return d;
}

static inline CudaQueue *queue_from(double d) {
        CudaQueue *q;

        memcpy(&q, &d, sizeof(d));
        return q;
}

/* At an open gate the call goes on to libcuda as a jump: nothing is left to do after it. Of a watched queue it goes on,
 * by a jump as well, to riding_...(), which has the queue in a register for floating-point arguments: a launch has
 * none, and has arguments in all the others. any_...() is for default streams, and gated_...() for all that is not done
 * in a few instructions.
 *
 * JUMP: (TYPES, ARGS...) of such a jump; GO(TO_X, name, OF JUMP) makes it. TYPES and ARGS are those of a call of
 * libcuda's function. */
#define AND_QUEUE(...)              (__VA_ARGS__, double queue)
#define TO_NEXT(name, TYPES, ...)   NEXT(name, TYPES, __VA_ARGS__)
#define TO_GATED(name, TYPES, ...)  gated_##name(__VA_ARGS__)
#define TO_ANY(name, TYPES, ...)    any_##name(__VA_ARGS__)
#define TO_RIDING(name, TYPES, ...) riding_##name(__VA_ARGS__, queue_to(q))
#define OF(...)                     __VA_ARGS__
#define GO(macro, ...)              macro(__VA_ARGS__)
#define GATED(name, PARAMS, STREAM, PER_THREAD, WHAT, BLOCKS, JUMP, TYPES, ...)                                        \
        static _noinline_ CudaResult gated_##name PARAMS {                                                             \
                const CudaWork w = {                                                                                   \
                                .entry = CUDA_##name,                                                                  \
                                .per_thread = PER_THREAD,                                                              \
                                .stream = STREAM,                                                                      \
                                .what = WHAT,                                                                          \
                                .blocks = BLOCKS,                                                                      \
                                .frame = FRAME,                                                                        \
                };                                                                                                     \
                _cleanup_(cuda_launch_leave)                                                                           \
                CudaLaunch l;                                                                                          \
                cuda_launch_begin(&w, &l);                                                                             \
                CudaResult r = NEXT(name, TYPES, __VA_ARGS__);                                                         \
                cuda_launch_end(&l, r);                                                                                \
                return r;                                                                                              \
        }                                                                                                              \
        static _noinline_ CudaResult riding_##name AND_QUEUE PARAMS {                                                  \
                CudaQueue *q = queue_from(queue);                                                                      \
                _cleanup_(cuda_rider_leave)                                                                            \
                CudaRider rider;                                                                                       \
                rider.queue = NULL;                                                                                    \
                if (unlikely(!cuda_rider_begin(CUDA_##name, q, cuda_launch_stream(STREAM, PER_THREAD), WHAT, BLOCKS,   \
                                    FRAME, &rider)))                                                                   \
                        return GO(TO_GATED, name, OF JUMP);                                                            \
                CudaResult r = NEXT(name, TYPES, __VA_ARGS__);                                                         \
                cuda_rider_end(&rider, r);                                                                             \
                return r;                                                                                              \
        }                                                                                                              \
        static _noinline_ CudaResult any_##name PARAMS {                                                               \
                CudaQueue *q = cuda_launch_queue_any(STREAM, PER_THREAD);                                              \
                if (cuda_launch_passes(CUDA_##name, q))                                                                \
                        return GO(TO_NEXT, name, OF JUMP);                                                             \
                return q ? GO(TO_RIDING, name, OF JUMP) : GO(TO_GATED, name, OF JUMP);                                 \
        }                                                                                                              \
        HOOK(name, PARAMS) {                                                                                           \
                CudaQueue *q = cuda_launch_queue(STREAM);                                                              \
                if (likely(cuda_launch_passes(CUDA_##name, q)))                                                        \
                        return GO(TO_NEXT, name, OF JUMP);                                                             \
                return q ? GO(TO_RIDING, name, OF JUMP) : GO(TO_ANY, name, OF JUMP);                                   \
        }

/* The function, and the one for which stream 0 is the per-thread default stream. */
#define GATED_BOTH(name, PARAMS, STREAM, ...)                                                                          \
        GATED(name, PARAMS, STREAM, false, __VA_ARGS__)                                                                \
        GATED(name##_ptsz, PARAMS, STREAM, true, __VA_ARGS__)

/* What is left of a kernel's arguments when the registers are full. The x86-64 ABI has the members of such a structure
 * where it has so many arguments, and as one it is left in place by a jump. Several the compiler would load and store
 * again, each. */
typedef struct OnStack {
        unsigned bz, after_bz;
        unsigned shared, after_shared;
        CudaStream stream;
        void **params;
} OnStack;

typedef struct OnStackMore {
        OnStack a;
        void **extra;
} OnStackMore;

#define DIMENSIONS   unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by
#define BLOCKS       ((uint64_t) gx * gy * gz)
#define NUMBERS      unsigned, unsigned, unsigned, unsigned, unsigned
#define KERNEL_TYPES (CudaFunction, NUMBERS, unsigned, unsigned, CudaStream, void **, void **)
#define KERNEL_ARGS  f, gx, gy, gz, bx, by, more.a.bz, more.a.shared, more.a.stream, more.a.params, more.extra
GATED_BOTH(cuLaunchKernel, (CudaFunction f, DIMENSIONS, OnStackMore more), more.a.stream, f, BLOCKS,
                ((CudaFunction, NUMBERS, OnStackMore), f, gx, gy, gz, bx, by, more), KERNEL_TYPES, KERNEL_ARGS)

#define COOPERATIVE_TYPES (CudaFunction, NUMBERS, unsigned, unsigned, CudaStream, void **)
#define COOPERATIVE_ARGS  f, gx, gy, gz, bx, by, a.bz, a.shared, a.stream, a.params
GATED_BOTH(cuLaunchCooperativeKernel, (CudaFunction f, DIMENSIONS, OnStack a), a.stream, f, BLOCKS,
                ((CudaFunction, NUMBERS, OnStack), f, gx, gy, gz, bx, by, a), COOPERATIVE_TYPES, COOPERATIVE_ARGS)

#define CONFIG_TYPES  (const CudaLaunchConfig *, CudaFunction, void **, void **)
#define CONFIG_STREAM (c ? c->stream : NULL)
#define CONFIG_BLOCKS (c ? (uint64_t) c->grid[0] * c->grid[1] * c->grid[2] : 0)
GATED_BOTH(cuLaunchKernelEx, (const CudaLaunchConfig *c, CudaFunction f, void **params, void **extra), CONFIG_STREAM, f,
                CONFIG_BLOCKS, (CONFIG_TYPES, c, f, params, extra), CONFIG_TYPES, c, f, params, extra)

#define LAUNCH_TYPES (CudaGraph, CudaStream)
GATED_BOTH(cuGraphLaunch, (CudaGraph graph, CudaStream stream), stream, graph, 0, (LAUNCH_TYPES, graph, stream),
                LAUNCH_TYPES, graph, stream)

#define GRID_TYPES       (CudaFunction, int, int)
#define GRID_ASYNC_TYPES (CudaFunction, int, int, CudaStream)
GATED(cuLaunch, (CudaFunction f), NULL, false, f, 1, ((CudaFunction), f), (CudaFunction), f)
GATED(cuLaunchGrid, (CudaFunction f, int width, int height), NULL, false, f, 1, (GRID_TYPES, f, width, height),
                GRID_TYPES, f, width, height)
GATED(cuLaunchGridAsync, (CudaFunction f, int width, int height, CudaStream stream), stream, false, f, 1,
                (GRID_ASYNC_TYPES, f, width, height, stream), GRID_ASYNC_TYPES, f, width, height, stream)

/* One kernel runs on several devices, and its parts wait for each other. So only the first part passes its gate; the
 * others are counted, and pass. */
HOOK(cuLaunchCooperativeKernelMultiDevice, (CudaLaunchParams * list, unsigned n, unsigned flags)) {
        CudaLaunch l[DEVICES_MAX];
        unsigned n_gated = list ? MIN(n, (unsigned) ELEMENTSOF(l)) : 0;

        for (unsigned i = 0; i < n_gated; i++) {
                const CudaWork w = {
                                .entry = CUDA_cuLaunchCooperativeKernelMultiDevice,
                                .stream = list[i].stream,
                                .what = list[i].function,
                                .blocks = (uint64_t) list[i].grid[0] * list[i].grid[1] * list[i].grid[2],
                                .frame = FRAME,
                };
                (i == 0 ? cuda_launch_begin : cuda_launch_begin_nowait)(&w, &l[i]);
        }
        CudaResult r = NEXT(
                        cuLaunchCooperativeKernelMultiDevice, (CudaLaunchParams *, unsigned, unsigned), list, n, flags);
        for (unsigned i = 0; i < n_gated; i++)
                cuda_launch_end(&l[i], r);
        return r;
}

/* --- for who schedules queues of this process --- */

void xsched_cuda_make_queue(uint64_t native); /* XschedMakeQueue */

_public_
void xsched_cuda_make_queue(uint64_t native) {
        if (native > CUDA_STREAM_PER_THREAD)
                cuda_track_make_queue((CudaStream) (uintptr_t) native);
}

/* --- waits --- */

#define WAITS_FOR_STREAM(name, PER_THREAD)                                                                             \
        HOOK(name, (CudaStream stream)) {                                                                              \
                CudaWait w;                                                                                            \
                cuda_count(CUDA_##name);                                                                               \
                cuda_context_look_for_left(FRAME);                                                                     \
                cuda_wait_begin(stream, PER_THREAD, FRAME, &w);                                                        \
                CudaResult r = NEXT(name, (CudaStream), stream);                                                       \
                cuda_wait_end(&w, r);                                                                                  \
                return r;                                                                                              \
        }
WAITS_FOR_STREAM(cuStreamSynchronize, false)
WAITS_FOR_STREAM(cuStreamSynchronize_ptsz, true)

static void waited_all(const void *frame) {
        cuda_context_look_for_left(frame);
        cuda_track_waited_all(frame);
}

HOOK(cuCtxSynchronize, (void) ) {
        cuda_count(CUDA_cuCtxSynchronize);
        CudaResult r = CUDA_CALL(cuCtxSynchronize, CudaResult(*)(void));
        if (r == CUDA_RESULT_SUCCESS)
                waited_all(FRAME);
        return r;
}

HOOK(cuCtxSynchronize_v2, (CudaContext context)) {
        cuda_count(CUDA_cuCtxSynchronize_v2);
        CudaResult r = NEXT(cuCtxSynchronize_v2, (CudaContext), context);
        if (r == CUDA_RESULT_SUCCESS)
                waited_all(FRAME);
        return r;
}

HOOK(cuEventSynchronize, (CudaEvent event)) {
        cuda_count(CUDA_cuEventSynchronize);
        CudaResult r = NEXT(cuEventSynchronize, (CudaEvent), event);
        if (r == CUDA_RESULT_SUCCESS)
                waited_all(FRAME);
        return r;
}

/* --- ends of streams, contexts and devices --- */

/* Of a stream that the driver refuses to destroy, what is in flight counts until it is complete, and the next launch
 * makes a queue for it again. A context that it refuses to destroy is kept as it is. */

#define DESTROYS_STREAM(name)                                                                                          \
        HOOK(name, (CudaStream stream)) {                                                                              \
                cuda_capture_leave_stream(stream);                                                                     \
                cuda_track_drop_stream(stream);                                                                        \
                CudaResult r = NEXT(name, (CudaStream), stream);                                                       \
                cuda_capture_left_stream(stream, r == CUDA_RESULT_SUCCESS);                                            \
                return r;                                                                                              \
        }
DESTROYS_STREAM(cuStreamDestroy)
DESTROYS_STREAM(cuStreamDestroy_v2)

#define DESTROYS_CONTEXT(name)                                                                                         \
        HOOK(name, (CudaContext context)) {                                                                            \
                uint32_t by = cuda_context_leaver(FRAME);                                                              \
                cuda_track_leave_context(context, by);                                                                 \
                CudaResult r = NEXT(name, (CudaContext), context);                                                     \
                cuda_track_left_context(context, by, r == CUDA_RESULT_SUCCESS);                                        \
                cuda_context_leaver_free(by);                                                                          \
                return r;                                                                                              \
        }
DESTROYS_CONTEXT(cuCtxDestroy)
DESTROYS_CONTEXT(cuCtxDestroy_v2)
DESTROYS_CONTEXT(cuCtxDetach)

HOOK(cuDevicePrimaryCtxRetain, (CudaContext * ret, CudaDevice device)) {
        CudaResult r = NEXT(cuDevicePrimaryCtxRetain, (CudaContext *, CudaDevice), ret, device);

        if (r == CUDA_RESULT_SUCCESS && ret)
                cuda_context_retained(*ret, device, FRAME);
        return r;
}

#define ENDS_PRIMARY(name, RESETS)                                                                                     \
        HOOK(name, (CudaDevice device)) {                                                                              \
                CudaPrimaryEnd e;                                                                                      \
                cuda_context_leave_primary(device, RESETS, FRAME, &e);                                                 \
                CudaResult r = NEXT(name, (CudaDevice), device);                                                       \
                cuda_context_left_primary(&e, r == CUDA_RESULT_SUCCESS);                                               \
                return r;                                                                                              \
        }
ENDS_PRIMARY(cuDevicePrimaryCtxRelease, false)
ENDS_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
ENDS_PRIMARY(cuDevicePrimaryCtxReset, true)
ENDS_PRIMARY(cuDevicePrimaryCtxReset_v2, true)

HOOK(cuGreenCtxCreate, (CudaGreen * ret, const void *resources, CudaDevice device, unsigned flags)) {
        CudaResult r = NEXT(cuGreenCtxCreate, (CudaGreen *, const void *, CudaDevice, unsigned), ret, resources, device,
                        flags);

        if (r == CUDA_RESULT_SUCCESS && ret)
                cuda_context_green(*ret, device);
        return r;
}

HOOK(cuGreenCtxStreamCreate, (CudaStream * ret, CudaGreen green, unsigned flags, int priority)) {
        CudaResult r = NEXT(
                        cuGreenCtxStreamCreate, (CudaStream *, CudaGreen, unsigned, int), ret, green, flags, priority);

        if (r == CUDA_RESULT_SUCCESS && ret)
                cuda_context_green_stream(green, *ret);
        return r;
}

HOOK(cuGreenCtxDestroy, (CudaGreen green)) {
        CudaGreenEnd e;

        cuda_context_leave_green(green, FRAME, &e);
        CudaResult r = NEXT(cuGreenCtxDestroy, (CudaGreen), green);
        cuda_context_left_green(&e, r == CUDA_RESULT_SUCCESS);
        return r;
}

/* --- captures --- */

#define BEGINS_CAPTURE(name, PER_THREAD, PARAMS, TYPES, ...)                                                           \
        HOOK(name, PARAMS) {                                                                                           \
                cuda_track_mark_tails();                                                                               \
                cuda_capture_begins(stream, PER_THREAD);                                                               \
                CudaResult r = NEXT(name, TYPES, __VA_ARGS__);                                                         \
                cuda_capture_look(stream, PER_THREAD);                                                                 \
                return r;                                                                                              \
        }
/* The function, and the one for which stream 0 is the per-thread default stream. */
#define BEGINS_CAPTURES(name, ...)                                                                                     \
        BEGINS_CAPTURE(name, false, __VA_ARGS__)                                                                       \
        BEGINS_CAPTURE(name##_ptsz, true, __VA_ARGS__)
#define GRAPH_PARAMS                                                                                                   \
        (CudaStream stream, CudaGraph graph, const void *dependencies, const void *data, size_t n, int mode)
#define GRAPH_TYPES      (CudaStream, CudaGraph, const void *, const void *, size_t, int)
#define RECAPTURE_PARAMS (CudaStream stream, int mode, CudaGraph graph, void *callback, void *userdata)
#define RECAPTURE_TYPES  (CudaStream, int, CudaGraph, void *, void *)
BEGINS_CAPTURES(cuStreamBeginCapture, (CudaStream stream), (CudaStream), stream)
BEGINS_CAPTURES(cuStreamBeginCapture_v2, (CudaStream stream, int mode), (CudaStream, int), stream, mode)
BEGINS_CAPTURES(cuStreamBeginCaptureToGraph, GRAPH_PARAMS, GRAPH_TYPES, stream, graph, dependencies, data, n, mode)
BEGINS_CAPTURES(cuStreamBeginRecaptureToGraph, RECAPTURE_PARAMS, RECAPTURE_TYPES, stream, mode, graph, callback,
                userdata)

#define ENDS_CAPTURE(name, PER_THREAD)                                                                                 \
        HOOK(name, (CudaStream stream, CudaGraph * ret)) {                                                             \
                CudaResult r = NEXT(name, (CudaStream, CudaGraph *), stream, ret);                                     \
                cuda_capture_look(stream, PER_THREAD);                                                                 \
                return r;                                                                                              \
        }
ENDS_CAPTURE(cuStreamEndCapture, false)
ENDS_CAPTURE(cuStreamEndCapture_ptsz, true)

HOOK(cuThreadExchangeStreamCaptureMode, (int *mode)) {
        cuda_capture_look_back(__builtin_frame_address(0));
        return NEXT(cuThreadExchangeStreamCaptureMode, (int *), mode);
}

#define BEGINS_CIG(name)                                                                                               \
        HOOK(name, (CudaStream stream, void *params)) {                                                                \
                cuda_track_mark_tails();                                                                               \
                cuda_capture_cig_begins();                                                                             \
                CudaResult r = NEXT(name, (CudaStream, void *), stream, params);                                       \
                if (r != CUDA_RESULT_SUCCESS)                                                                          \
                        cuda_capture_cig_ended();                                                                      \
                return r;                                                                                              \
        }
BEGINS_CIG(cuStreamBeginCaptureToCig)
BEGINS_CIG(cuStreamBeginCaptureToCig_ptsz)

#define ENDS_CIG(name)                                                                                                 \
        HOOK(name, (CudaStream stream)) {                                                                              \
                CudaResult r = NEXT(name, (CudaStream), stream);                                                       \
                if (r == CUDA_RESULT_SUCCESS)                                                                          \
                        cuda_capture_cig_ended();                                                                      \
                return r;                                                                                              \
        }
ENDS_CIG(cuStreamEndCaptureToCig)
ENDS_CIG(cuStreamEndCaptureToCig_ptsz)

/* --- which hook is for which function --- */

static void *hook_of(CudaEntry e) {
        static void *const hooks[_CUDA_ENTRY_MAX] = {
#define HOOKED(name)  [CUDA_##name] = (void *) cuda_hook_##name,
#define COUNTED(name) [CUDA_##name] = cuda_hook_##name,
#define HELPER(name)
#include "shim/cuda/cuda-entries.h"
        };

        return e < _CUDA_ENTRY_MAX ? hooks[e] : NULL;
}

/* For the demo and tests: how often a function was called; UINT64_MAX: calls of it are not counted. */
_public_
uint64_t xsched_cuda_count(const char *name);

_public_
uint64_t xsched_cuda_count(const char *name) {
        CudaEntry e = cuda_entry_named(name);

        return hook_of(e) ? atomic_load_explicit(&cuda_counts[e], memory_order_relaxed) : cuda_unknown_count(name);
}
