/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The same hooks as preloaded symbols, for loaders without layers
 *
 * An application that was linked against libOpenCL calls these when our library is in LD_PRELOAD. The functions
 * below are looked up in the libOpenCL that is really loaded, by its handle: RTLD_NEXT alone does not see libraries
 * that were loaded privately (Python extensions), and opening one by path could bring in a second.
 *
 * If that libOpenCL has us as a layer, too, each call would be intercepted twice, so the symbols here then pass calls
 * on. To find out, libOpenCL is asked for a function that only our layer knows. On the same thread, calls from inside a
 * call (a driver that uses its own public functions, and finds ours) pass as well.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/object-open.h"
#include "opencl-hooks.h"
#include "opencl-layer.h"
#include "shim/opencl/opencl-launch.h"

/* Functions that hooks call besides the ones they replace. */
static const struct {
        const char *name;
        size_t entry;
} helpers[] = {
#define HELPER(function)                                                                                               \
        { #function, OPENCL_ENTRY(function) }
                HELPER(clEnqueueMarker),
                HELPER(clFlush),
                HELPER(clGetCommandQueueInfo),
                HELPER(clGetDeviceIDs),
                HELPER(clGetDeviceInfo),
                HELPER(clGetEventProfilingInfo),
                HELPER(clGetPlatformInfo),
                HELPER(clReleaseEvent),
                HELPER(clRetainEvent),
#undef HELPER
};

static pthread_mutex_t resolve_lock = PTHREAD_MUTEX_INITIALIZER;
static bool resolved;
static cl_icd_dispatch native, hooked;
static _Atomic(const cl_icd_dispatch *) dispatch; /* `native` or `hooked`, once it is known which */

/* --- finding the library --- */

/* The library stays loaded for ever, because our functions call into it. */
static void *native_handle(void) {
        static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
                if (handle)
                        return handle;
        }

        return object_open("libOpenCL"); /* a copy with another name, as in Python wheels */
}

static OpenclFunction native_function(void *handle, const char *name) {
        void *f = handle ? dlsym(handle, name) : NULL;
        return (OpenclFunction) (uintptr_t) (f ?: dlsym(RTLD_NEXT, name));
}

static void resolve_native(void) {
        OpenclFunction *to = (OpenclFunction *) &native;
        void *handle = native_handle();

        for (size_t i = 0; i < ELEMENTSOF(helpers); i++)
                to[helpers[i].entry] = native_function(handle, helpers[i].name);
        for (size_t i = 0; i < opencl_n_hooks; i++)
                to[opencl_hooks[i].entry] = native_function(handle, opencl_hooks[i].name);
}

static bool resolve_usable(void) {
        for (size_t i = 0; i < ELEMENTSOF(helpers); i++)
                if (!((OpenclFunction *) &native)[helpers[i].entry])
                        return false;
        return native.clGetEventInfo && native.clSetEventCallback;
}

static _noinline_ const cl_icd_dispatch *resolve(void) {
        PROTECT_ERRNO;

        (void) pthread_mutex_lock(&resolve_lock);
        if (!resolved)
                resolve_native();
        resolved = true;
        (void) pthread_mutex_unlock(&resolve_lock);
        if (opencl_thread.resolving)
                return &native;

        /* Called without the lock, because it initialises the loader if nothing else has. */
        opencl_thread.resolving = true;
        bool layered = native.clGetExtensionFunctionAddress &&
                        native.clGetExtensionFunctionAddress(opencl_probe) == opencl_probe;
        opencl_thread.resolving = false;

        const cl_icd_dispatch *d = &native;
        if (!layered && resolve_usable()) {
                (void) pthread_mutex_lock(&resolve_lock);
                opencl_hook_dispatch(&native, OPENCL_N_ENTRIES, &hooked);
                (void) pthread_mutex_unlock(&resolve_lock);
                d = &hooked;
        }
        atomic_store_explicit(&dispatch, d, memory_order_release);
        return d;
}

static inline const cl_icd_dispatch *enter(void) {
        const cl_icd_dispatch *d = atomic_load_explicit(&dispatch, memory_order_acquire);
        if (unlikely(!d))
                d = resolve();
        if (unlikely(opencl_thread.depth++ > 0))
                d = &native;
        return d;
}

static inline void leave(const int *unused) {
        opencl_thread.depth--;
}

#define ENTER                                                                                                          \
        const cl_icd_dispatch *d = enter();                                                                            \
        _cleanup_(leave)                                                                                               \
        _unused_ int left = 0

/* --- the symbols --- */

#define GATED(function, PARAMS, ARGS)                                                                                  \
        _public_                                                                                                       \
        cl_int CL_API_CALL function(                                                                                   \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                ENTER;                                                                                                 \
                return d->function ? d->function(queue ARGS, n_waits, waits, event) : CL_INVALID_OPERATION;            \
        }
#define GATED_KERNEL(function, PARAMS, ARGS)   GATED(function, SAME(PARAMS), SAME(ARGS))
#define GATED_BLOCKING(function, PARAMS, ARGS) GATED(function, SAME(PARAMS), SAME(ARGS))
#define GATED_WRITE(function, PARAMS, ARGS)    GATED(function, SAME(PARAMS), SAME(ARGS))
#define OBSERVED(function, what, PARAMS, ARGS) GATED(function, SAME(PARAMS), SAME(ARGS))
#define SAME(...)                              __VA_ARGS__
#define GATED_MAP(function, PARAMS, ARGS)                                                                              \
        _public_                                                                                                       \
        void *CL_API_CALL function(cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits,              \
                        cl_event *event, cl_int *errcode) {                                                            \
                ENTER;                                                                                                 \
                if (!d->function) {                                                                                    \
                        if (errcode)                                                                                   \
                                *errcode = CL_INVALID_OPERATION;                                                       \
                        return NULL;                                                                                   \
                }                                                                                                      \
                return d->function(queue ARGS, n_waits, waits, event, errcode);                                        \
        }
#include "shim/opencl/opencl-entries.h"

/* All other functions, with their parameters in brackets. FAILURE: the result when there is no OpenCL library. */
#define FORWARD(type, function, PARAMS, ARGS, FAILURE)                                                                 \
        _public_                                                                                                       \
        type CL_API_CALL function PARAMS {                                                                             \
                ENTER;                                                                                                 \
                return d->function ? d->function ARGS : FAILURE;                                                       \
        }

static cl_command_queue no_queue(cl_int *errcode) {
        if (errcode)
                *errcode = CL_INVALID_CONTEXT;
        return NULL;
}

/* clang-format off */
FORWARD(cl_int, clEnqueueBarrier, (cl_command_queue queue), (queue), CL_INVALID_OPERATION)
FORWARD(cl_int, clEnqueueWaitForEvents,
        (cl_command_queue command_queue, cl_uint num_events, const cl_event *event_list),
        (command_queue, num_events, event_list), CL_INVALID_OPERATION)
FORWARD(cl_int, clFinish, (cl_command_queue queue), (queue), CL_INVALID_COMMAND_QUEUE)
FORWARD(cl_int, clWaitForEvents, (cl_uint num_events, const cl_event *event_list), (num_events, event_list),
        CL_INVALID_EVENT)
FORWARD(cl_int, clGetEventInfo,
        (cl_event event, cl_event_info param_name, size_t param_value_size, void *param_value,
         size_t *param_value_size_ret),
        (event, param_name, param_value_size, param_value, param_value_size_ret), CL_INVALID_EVENT)
FORWARD(cl_int, clSetEventCallback,
        (cl_event event, cl_int command_exec_callback_type,
         void(CL_CALLBACK *pfn_notify)(cl_event, cl_int, void *), void *user_data),
        (event, command_exec_callback_type, pfn_notify, user_data), CL_INVALID_EVENT)
FORWARD(cl_command_queue, clCreateCommandQueue,
        (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *errcode),
        (context, device, properties, errcode), no_queue(errcode))
FORWARD(cl_command_queue, clCreateCommandQueueWithProperties,
        (cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *errcode),
        (context, device, properties, errcode), no_queue(errcode))
FORWARD(cl_int, clRetainCommandQueue, (cl_command_queue queue), (queue), CL_INVALID_COMMAND_QUEUE)
FORWARD(cl_int, clReleaseCommandQueue, (cl_command_queue queue), (queue), CL_INVALID_COMMAND_QUEUE)
FORWARD(cl_int, clSetCommandQueueProperty,
        (cl_command_queue queue, cl_command_queue_properties properties, cl_bool enable,
         cl_command_queue_properties *old),
        (queue, properties, enable, old), CL_INVALID_COMMAND_QUEUE)
FORWARD(void *, clGetExtensionFunctionAddress, (const char *name), (name), NULL)
FORWARD(void *, clGetExtensionFunctionAddressForPlatform, (cl_platform_id platform, const char *name),
        (platform, name), NULL)
/* clang-format on */
