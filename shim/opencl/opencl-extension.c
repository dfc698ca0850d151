/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hooks of extension functions: cl_khr_create_command_queue and cl_khr_command_buffer
 *
 * The table of what has been looked up only grows, up to a fixed size, and entries never change: readers need no lock.
 */

#include "shim/opencl/opencl-extension.h"
#include "shim/opencl/opencl-launch.h"
#include "shim/opencl/opencl-life.h"

/* For headers that do not know the extension yet. */
typedef void *CommandBuffer;
#define COMMAND_BUFFER_QUEUES_KHR     0x1294U
#define COMMAND_BUFFER_NUM_QUEUES_KHR 0x1295U

typedef cl_command_queue(CL_API_CALL *CreateQueueFunction)(
                cl_context, cl_device_id, const cl_queue_properties *, cl_int *);
typedef cl_int(CL_API_CALL *EnqueueBufferFunction)(
                cl_uint, cl_command_queue *, CommandBuffer, cl_uint, const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *BufferInfoFunction)(CommandBuffer, cl_uint, size_t, void *, size_t *);

typedef enum Extension {
        EXTENSION_CREATE_QUEUE,
        EXTENSION_ENQUEUE_BUFFER,
        _EXTENSION_MAX,
} Extension;

static const char *const extension_name[_EXTENSION_MAX] = {
                [EXTENSION_CREATE_QUEUE] = "clCreateCommandQueueWithPropertiesKHR",
                [EXTENSION_ENQUEUE_BUFFER] = "clEnqueueCommandBufferKHR",
};

#define PLATFORMS_MAX 16U

typedef struct PlatformFunction {
        cl_platform_id platform; /* NULL: looked up without a platform */
        void *function;
        BufferInfoFunction buffer_info; /* of the same platform */
} PlatformFunction;

static PlatformFunction functions[_EXTENSION_MAX][PLATFORMS_MAX];
static _Atomic size_t n_functions[_EXTENSION_MAX];
static pthread_mutex_t functions_lock = PTHREAD_MUTEX_INITIALIZER;

/* Finds the platform's own function, or the only one there is. */
static const PlatformFunction *function_find(Extension e, cl_platform_id platform) {
        size_t n = atomic_load_explicit(&n_functions[e], memory_order_acquire);
        for (size_t i = 0; i < n; i++)
                if (functions[e][i].platform == platform)
                        return functions[e] + i;
        return NULL;
}

static bool function_remember(Extension e, cl_platform_id platform, void *function, BufferInfoFunction info) {
        (void) pthread_mutex_lock(&functions_lock);
        const PlatformFunction *known = function_find(e, platform);
        size_t n = atomic_load(&n_functions[e]);
        bool room = n < PLATFORMS_MAX;
        if (!known && room) {
                functions[e][n] = (PlatformFunction){.platform = platform, .function = function, .buffer_info = info};
                atomic_store_explicit(&n_functions[e], n + 1, memory_order_release);
        }
        (void) pthread_mutex_unlock(&functions_lock);
        return known ? known->function == function : room;
}

static const PlatformFunction *function_for_device(Extension e, cl_device_id device) {
        cl_platform_id platform = NULL;
        if (device)
                (void) opencl_next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
        return function_find(e, platform) ?: function_find(e, NULL) ?: &functions[e][0];
}

/* --- the hooks; each exists only after a look-up has succeeded, so there is a function to call --- */

static cl_command_queue CL_API_CALL hook_create_queue(
                cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *errcode) {
        const PlatformFunction *f = function_for_device(EXTENSION_CREATE_QUEUE, device);
        cl_command_queue queue = ((CreateQueueFunction) f->function)(context, device, properties, errcode);
        if (queue)
                opencl_queue_add_with(queue, device, properties);
        return queue;
}

static cl_device_id queue_device(cl_command_queue queue) {
        cl_device_id device = NULL;
        if (queue)
                (void) opencl_next.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
        return device;
}

/* A command buffer counts on the first of its queues: those that the caller names, or those that it was recorded
 * for. */
static cl_command_queue buffer_queue(
                const PlatformFunction *f, CommandBuffer buffer, cl_uint n, cl_command_queue *queues) {
        if (n > 0 && queues)
                return queues[0];

        cl_uint count = 0;
        if (!f->buffer_info || !buffer ||
                        f->buffer_info(buffer, COMMAND_BUFFER_NUM_QUEUES_KHR, sizeof(count), &count, NULL) !=
                                        CL_SUCCESS ||
                        count == 0)
                return NULL;
        _cleanup_free_ cl_command_queue *own = calloc(count, sizeof(cl_command_queue));
        if (!own ||
                        f->buffer_info(buffer, COMMAND_BUFFER_QUEUES_KHR, count * sizeof(cl_command_queue), own,
                                        NULL) != CL_SUCCESS)
                return NULL;
        return own[0];
}

static cl_int CL_API_CALL hook_enqueue_buffer(cl_uint n_queues, cl_command_queue *queues, CommandBuffer buffer,
                cl_uint n_waits, const cl_event *waits, cl_event *event) {
        const PlatformFunction *f = function_for_device(
                        EXTENSION_ENQUEUE_BUFFER, n_queues > 0 && queues ? queue_device(queues[0]) : NULL);
        EnqueueBufferFunction next = (EnqueueBufferFunction) f->function;

        cl_command_queue queue = buffer_queue(f, buffer, n_queues, queues);
        OpenclQueue *q = queue ? opencl_gate(queue, n_waits, buffer, 0, NULL) : NULL;
        if (!q)
                return next(n_queues, queues, buffer, n_waits, waits, event);

        OpenclLaunch l;
        opencl_launch_start(q, event, opencl_time_kind(buffer, 0, NULL), n_waits, &l);
        cl_int r = next(n_queues, queues, buffer, n_waits, waits, l.event);
        opencl_launch_end(&l, r != CL_SUCCESS, n_waits, waits);
        return r;
}

static const OpenclFunction extension_hook[_EXTENSION_MAX] = {
                [EXTENSION_CREATE_QUEUE] = (OpenclFunction) hook_create_queue,
                [EXTENSION_ENQUEUE_BUFFER] = (OpenclFunction) hook_enqueue_buffer,
};

static void *look_up(cl_platform_id platform, const char *name) {
        if (platform && opencl_next.clGetExtensionFunctionAddressForPlatform)
                return opencl_next.clGetExtensionFunctionAddressForPlatform(platform, name);
        return opencl_next.clGetExtensionFunctionAddress(name);
}

void *opencl_extension_hook(cl_platform_id platform, const char *name, void *found) {
        if (!found || !name)
                return found;

        for (Extension e = 0; e < _EXTENSION_MAX; e++) {
                if (!streq(name, extension_name[e]))
                        continue;
                BufferInfoFunction info = NULL;
                if (e == EXTENSION_ENQUEUE_BUFFER)
                        info = (BufferInfoFunction) (uintptr_t) look_up(platform, "clGetCommandBufferInfoKHR");
                return function_remember(e, platform, found, info) ? (void *) (uintptr_t) extension_hook[e] : found;
        }
        return found;
}
