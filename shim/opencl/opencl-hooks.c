/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The functions that intercept the runtime's
 *
 * Nothing changes for the application: what is returned is the runtime's, the arguments go on as they came, and an
 * event that the application did not ask for is ours to release. See opencl-entries.h for what is gated and what is
 * not.
 */

#include "opencl-hooks.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-extension.h"
#include "shim/opencl/opencl-launch.h"
#include "shim/opencl/opencl-life.h"
#include "shim/opencl/opencl-track.h"

/* --- what makes the device work --- */

/* The body: the arguments as the application gave them, and with the event where we want it; and the kind
 * (opencl_time_kind()). */
#define GATED_LAUNCH(function, arguments, tracked, blocks, ...)                                                        \
        OpenclQueue *q = opencl_gate(queue, n_waits, __VA_ARGS__);                                                     \
        if (likely(!q))                                                                                                \
                return opencl_next.function arguments;                                                                 \
                                                                                                                       \
        OpenclLaunch l = {.blocking = blocks};                                                                         \
        opencl_launch_start(q, event, opencl_time_kind(__VA_ARGS__), n_waits, &l);                                     \
        cl_int r = opencl_next.function tracked;                                                                       \
        opencl_launch_end(&l, r != CL_SUCCESS, n_waits, waits);                                                        \
        return r;

#define GATED(function, PARAMS, ARGS)                                                                                  \
        static cl_int CL_API_CALL hook_##function(                                                                     \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                GATED_LAUNCH(function, (queue ARGS, n_waits, waits, event), (queue ARGS, n_waits, waits, l.event),     \
                                false, #function, 0, NULL)                                                             \
        }

#define GATED_WRITE(function, PARAMS, ARGS)                                                                            \
        static cl_int CL_API_CALL hook_##function(                                                                     \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                GATED_LAUNCH(function, (queue ARGS, n_waits, waits, event), (queue ARGS, n_waits, waits, l.event),     \
                                blocking, #function, 0, NULL)                                                          \
        }

#define GATED_KERNEL(function, PARAMS, ARGS)                                                                           \
        static cl_int CL_API_CALL hook_##function(                                                                     \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                GATED_LAUNCH(function, (queue ARGS, n_waits, waits, event), (queue ARGS, n_waits, waits, l.event),     \
                                false, kernel, dim, global)                                                            \
        }

#define GATED_BLOCKING(function, PARAMS, ARGS)                                                                         \
        static cl_int CL_API_CALL hook_##function(                                                                     \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                OpenclQueue *q = opencl_gate(queue, n_waits, #function, 0, NULL);                                      \
                if (likely(!q))                                                                                        \
                        return opencl_next.function(queue ARGS, n_waits, waits, event);                                \
                                                                                                                       \
                if (blocking) {                                                                                        \
                        _cleanup_(opencl_wait_leave)                                                                   \
                        OpenclWait w = {};                                                                             \
                        opencl_blocking_start(q, &w);                                                                  \
                        cl_int r = opencl_next.function(queue ARGS, n_waits, waits, event);                            \
                        opencl_blocking_end(&w, q, r != CL_SUCCESS);                                                   \
                        return r;                                                                                      \
                }                                                                                                      \
                OpenclLaunch l = {};                                                                                   \
                opencl_launch_start(q, event, opencl_time_kind(#function, 0, NULL), n_waits, &l);                      \
                cl_int r = opencl_next.function(queue ARGS, n_waits, waits, l.event);                                  \
                opencl_launch_end(&l, r != CL_SUCCESS, n_waits, waits);                                                \
                return r;                                                                                              \
        }

#define GATED_MAP(function, PARAMS, ARGS)                                                                              \
        static void *CL_API_CALL hook_##function(cl_command_queue queue PARAMS, cl_uint n_waits,                       \
                        const cl_event *waits, cl_event *event, cl_int *errcode) {                                     \
                OpenclQueue *q = opencl_gate(queue, n_waits, #function, 0, NULL);                                      \
                if (likely(!q))                                                                                        \
                        return opencl_next.function(queue ARGS, n_waits, waits, event, errcode);                       \
                                                                                                                       \
                if (blocking) {                                                                                        \
                        _cleanup_(opencl_wait_leave)                                                                   \
                        OpenclWait w = {};                                                                             \
                        opencl_blocking_start(q, &w);                                                                  \
                        void *p = opencl_next.function(queue ARGS, n_waits, waits, event, errcode);                    \
                        opencl_blocking_end(&w, q, !p);                                                                \
                        return p;                                                                                      \
                }                                                                                                      \
                OpenclLaunch l = {};                                                                                   \
                opencl_launch_start(q, event, opencl_time_kind(#function, 0, NULL), n_waits, &l);                      \
                void *p = opencl_next.function(queue ARGS, n_waits, waits, l.event, errcode);                          \
                opencl_launch_end(&l, !p, n_waits, waits);                                                             \
                return p;                                                                                              \
        }

#define OBSERVED(function, what, PARAMS, ARGS)                                                                         \
        static cl_int CL_API_CALL hook_##function(                                                                     \
                        cl_command_queue queue PARAMS, cl_uint n_waits, const cl_event *waits, cl_event *event) {      \
                cl_int r = opencl_next.function(queue ARGS, n_waits, waits, event);                                    \
                OpenclQueue *q = opencl_queue_find(queue);                                                             \
                if (q && r == CL_SUCCESS)                                                                              \
                        opencl_observe(q, what, n_waits, waits);                                                       \
                return r;                                                                                              \
        }

#include "shim/opencl/opencl-entries.h"

static cl_int CL_API_CALL hook_clEnqueueBarrier(cl_command_queue queue) {
        cl_int r = opencl_next.clEnqueueBarrier(queue);
        OpenclQueue *q = opencl_queue_find(queue);
        if (q && r == CL_SUCCESS)
                opencl_observe(q, OPENCL_OBSERVE_BARRIER, 0, NULL);
        return r;
}

static cl_int CL_API_CALL hook_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint n_waits, const cl_event *waits) {
        cl_int r = opencl_next.clEnqueueWaitForEvents(queue, n_waits, waits);
        OpenclQueue *q = opencl_queue_find(queue);
        if (q && r == CL_SUCCESS)
                opencl_observe(q, OPENCL_OBSERVE_BARRIER, n_waits, waits);
        return r;
}

/* --- when the application learns something, so do we --- */

static cl_int CL_API_CALL hook_clFinish(cl_command_queue queue) {
        OpenclQueue *q = opencl_queue_find(queue);
        if (likely(!q || atomic_load_explicit(&q->n_tracked, memory_order_relaxed) == 0))
                return opencl_next.clFinish(queue);

        _cleanup_(opencl_wait_leave)
        OpenclWait w = {};
        opencl_before_wait(q, &w);
        cl_int r = opencl_next.clFinish(queue);
        opencl_after_wait(q, &w, r == CL_SUCCESS);
        return r;
}

/* A wait for completed launches takes less time than this. */
#define WAITED_NS (20 * NSEC_PER_USEC)

static cl_int CL_API_CALL hook_clWaitForEvents(cl_uint n, const cl_event *events) {
        if (likely(atomic_load_explicit(&opencl_n_busy, memory_order_relaxed) == 0))
                return opencl_next.clWaitForEvents(n, events);

        uint64_t start = now_ns();
        _cleanup_(opencl_event_wait_leave)
        OpenclEventWait w;
        opencl_event_wait_begin(&w, n, events);
        cl_int r = opencl_next.clWaitForEvents(n, events);
        bool waited = now_ns() - start >= WAITED_NS;

        /* A negative status is that of one of the events: the wait itself succeeded, so the handles are valid. */
        if (r == CL_SUCCESS || r == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
                for (cl_uint i = 0; i < n; i++)
                        opencl_harvest_event(events[i], waited);
        return r;
}

/* A program that polls the status until it is complete waits, too. */
static void learn_status(cl_event event, const void *value) {
        PROTECT_ERRNO;
        cl_int status;

        memcpy(&status, value, sizeof(status));
        if (status <= CL_COMPLETE && atomic_load_explicit(&opencl_n_busy, memory_order_relaxed) != 0)
                opencl_harvest_asked(event);
}

/* Hides the reference that we hold to a tracked event. */
static cl_int CL_API_CALL hook_clGetEventInfo(
                cl_event event, cl_event_info what, size_t size, void *value, size_t *size_ret) {
        cl_int r = opencl_next.clGetEventInfo(event, what, size, value, size_ret);
        if (r == CL_SUCCESS && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value) {
                learn_status(event, value);
                return r;
        }
        if (likely(what != CL_EVENT_REFERENCE_COUNT) || r != CL_SUCCESS || !value)
                return r;

        cl_uint count;
        memcpy(&count, value, sizeof(count));
        if (opencl_event_is_tracked(event) && count > 1) {
                count--;
                memcpy(value, &count, sizeof(count));
        }
        return r;
}

/* --- callbacks: the application's code on a thread of the runtime, where a launch must not wait --- */

typedef struct EventCallback {
        void(CL_CALLBACK *function)(cl_event, cl_int, void *);
        void *userdata;
} EventCallback;

static void CL_CALLBACK event_called_back(cl_event event, cl_int status, void *userdata) {
        EventCallback c = *(EventCallback *) userdata;
        free(userdata);

        /* Some runtimes call back from inside of the application's call: the calls in the callback are the
         * application's own all the same. */
        unsigned depth = opencl_thread.depth;
        opencl_thread.depth = 0;
        opencl_thread.in_callback++;
        c.function(event, status, c.userdata);
        opencl_thread.in_callback--;
        opencl_thread.depth = depth;
}

static cl_int CL_API_CALL hook_clSetEventCallback(
                cl_event event, cl_int status, void(CL_CALLBACK *function)(cl_event, cl_int, void *), void *userdata) {
        EventCallback *c = function ? malloc(sizeof(*c)) : NULL;
        if (!c)
                return opencl_next.clSetEventCallback(event, status, function, userdata);

        *c = (EventCallback){.function = function, .userdata = userdata};
        cl_int r = opencl_next.clSetEventCallback(event, status, event_called_back, c);
        if (r != CL_SUCCESS)
                free(c);
        return r;
}

/* --- queues come and go --- */

static cl_command_queue CL_API_CALL hook_clCreateCommandQueue(
                cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *errcode) {
        cl_command_queue queue = opencl_next.clCreateCommandQueue(context, device, properties, errcode);
        if (queue)
                opencl_queue_add(queue, device, properties, 0);
        return queue;
}

static cl_command_queue CL_API_CALL hook_clCreateCommandQueueWithProperties(
                cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *errcode) {
        cl_command_queue queue = opencl_next.clCreateCommandQueueWithProperties(context, device, properties, errcode);
        if (queue)
                opencl_queue_add_with(queue, device, properties);
        return queue;
}

static cl_int CL_API_CALL hook_clRetainCommandQueue(cl_command_queue queue) {
        cl_int r = opencl_next.clRetainCommandQueue(queue);
        if (r == CL_SUCCESS)
                opencl_queue_retained(queue);
        return r;
}

static cl_int CL_API_CALL hook_clReleaseCommandQueue(cl_command_queue queue) {
        return opencl_queue_released(queue) ? CL_SUCCESS : opencl_next.clReleaseCommandQueue(queue);
}

static cl_int CL_API_CALL hook_clSetCommandQueueProperty(cl_command_queue queue, cl_command_queue_properties properties,
                cl_bool enable, cl_command_queue_properties *old) {
        cl_int r = opencl_next.clSetCommandQueueProperty(queue, properties, enable, old);
        OpenclQueue *q = opencl_queue_find(queue);
        if (q && r == CL_SUCCESS && properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
                atomic_store(&q->in_order, !enable);
        return r;
}

/* --- functions that are looked up by name --- */

const char opencl_probe[] = "xsched probe";

static void *CL_API_CALL hook_clGetExtensionFunctionAddress(const char *name) {
        if (name == opencl_probe)
                return (void *) (uintptr_t) opencl_probe;
        return opencl_extension_hook(NULL, name, opencl_next.clGetExtensionFunctionAddress(name));
}

static void *CL_API_CALL hook_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name) {
        return opencl_extension_hook(
                        platform, name, opencl_next.clGetExtensionFunctionAddressForPlatform(platform, name));
}

/* --- the table --- */

#define HOOK(function) {#function, OPENCL_ENTRY(function), (OpenclFunction) hook_##function},

const OpenclHook opencl_hooks[] = {HOOK(clEnqueueBarrier) HOOK(clEnqueueWaitForEvents) HOOK(clFinish) HOOK(
                clWaitForEvents) HOOK(clGetEventInfo) HOOK(clSetEventCallback) HOOK(clCreateCommandQueue)
                                HOOK(clCreateCommandQueueWithProperties) HOOK(clRetainCommandQueue)
                                                HOOK(clReleaseCommandQueue) HOOK(clSetCommandQueueProperty) HOOK(
                                                                clGetExtensionFunctionAddress)
                                                                HOOK(clGetExtensionFunctionAddressForPlatform)
#define GATED(function, PARAMS, ARGS)          HOOK(function)
#define GATED_KERNEL(function, PARAMS, ARGS)   HOOK(function)
#define GATED_WRITE(function, PARAMS, ARGS)    HOOK(function)
#define GATED_BLOCKING(function, PARAMS, ARGS) HOOK(function)
#define GATED_MAP(function, PARAMS, ARGS)      HOOK(function)
#define OBSERVED(function, what, PARAMS, ARGS) HOOK(function)
#include "shim/opencl/opencl-entries.h"
};

const size_t opencl_n_hooks = ELEMENTSOF(opencl_hooks);
