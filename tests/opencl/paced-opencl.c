/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An OpenCL runtime for the paced device (paced-device.h)
 *
 * A driver for ICD loaders: OCL_ICD_VENDORS=libpaced-opencl.so. It has what the tenants of the tests need and the layer
 * asks for, and three kernels, known by their names, whose results are made when they are found complete:
 *
 *         work, timed     `rounds` steps for each item (mix-tenant.c, timed.c); a step takes a nanosecond
 *         tick            the device's time
 *
 * All queues of a process are one: a command starts when those submitted before it have ended. What a launch, an event
 * and a question about one cost the host is as on a machine with an NVIDIA GPU; and as there, a thread that waits for
 * the device does not sleep through the end.
 *
 * PACED_DEVICE names the file by which processes share a device. Without it each has one for itself.
 *
 * Thread safety: one lock. Callbacks are called without it, by a thread of their own.
 */

#include <stdlib.h>
#include <string.h>

#include "paced-opencl.h"

#include "common/macro.h"

#define _icd_ __attribute__((visibility("default")))

static struct _cl_platform_id only_platform = {&paced_dispatch};
static struct _cl_device_id only_device = {&paced_dispatch};

static const char *const function_names[_FUNCTION_MAX] = {
                [FUNCTION_WORK] = "work",
                [FUNCTION_TIMED] = "timed",
                [FUNCTION_TICK] = "tick",
};

static void *answer(void *object, cl_int *ret) {
        if (ret)
                *ret = object ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
        return object;
}

static cl_int tell(const void *value, size_t size, size_t room, void *ret, size_t *ret_size) {
        if (ret && room < size)
                return CL_INVALID_VALUE;
        if (ret)
                memcpy(ret, value, size);
        if (ret_size)
                *ret_size = size;
        return CL_SUCCESS;
}

#define TELL(type, v) tell(&(type){v}, sizeof(type), size, ret, ret_size)
#define TELL_TEXT(s)  tell(s, sizeof(s), size, ret, ret_size)

/* --- questions --- */

static cl_int platform_ids(cl_uint room, cl_platform_id *ret, cl_uint *ret_n) {
        if (ret && room > 0)
                ret[0] = &only_platform;
        if (ret_n)
                *ret_n = 1;
        return CL_SUCCESS;
}

static cl_int platform_info(cl_platform_id p, cl_platform_info what, size_t size, void *ret, size_t *ret_size) {
        switch (what) {
        case CL_PLATFORM_NAME:
                return TELL_TEXT("Paced");
        case CL_PLATFORM_VENDOR:
                return TELL_TEXT("xsched");
        case CL_PLATFORM_VERSION:
                return TELL_TEXT("OpenCL 3.0 paced");
        case CL_PLATFORM_PROFILE:
                return TELL_TEXT("FULL_PROFILE");
        case CL_PLATFORM_EXTENSIONS:
                return TELL_TEXT("cl_khr_icd");
        case CL_PLATFORM_ICD_SUFFIX_KHR:
                return TELL_TEXT("PACED");
        default:
                return CL_INVALID_VALUE;
        }
}

static cl_int device_ids(cl_platform_id p, cl_device_type type, cl_uint room, cl_device_id *ret, cl_uint *ret_n) {
        if (type != CL_DEVICE_TYPE_ALL && !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
                return CL_DEVICE_NOT_FOUND;
        if (ret && room > 0)
                ret[0] = &only_device;
        if (ret_n)
                *ret_n = 1;
        return CL_SUCCESS;
}

static cl_int device_info(cl_device_id d, cl_device_info what, size_t size, void *ret, size_t *ret_size) {
        switch (what) {
        case CL_DEVICE_TYPE:
                return TELL(cl_device_type, CL_DEVICE_TYPE_GPU);
        case CL_DEVICE_NAME:
                return TELL_TEXT("paced device");
        case CL_DEVICE_VENDOR_ID:
                return TELL(cl_uint, 0x10DE); /* it behaves as NVIDIA's: nobody requests callbacks of it */
        case CL_DEVICE_VENDOR:
                return TELL_TEXT("xsched");
        case CL_DRIVER_VERSION:
                return TELL_TEXT("1");
        case CL_DEVICE_VERSION:
                return TELL_TEXT("OpenCL 3.0 paced");
        case CL_DEVICE_PLATFORM:
                return TELL(cl_platform_id, &only_platform);
        case CL_DEVICE_PARENT_DEVICE:
                return TELL(cl_device_id, NULL);
        case CL_DEVICE_MAX_COMPUTE_UNITS:
                return TELL(cl_uint, 1);
        case CL_DEVICE_EXTENSIONS:
                return TELL_TEXT("");
        default:
                return CL_INVALID_VALUE;
        }
}

static cl_int queue_info(cl_command_queue q, cl_command_queue_info what, size_t size, void *ret, size_t *ret_size) {
        switch (what) {
        case CL_QUEUE_CONTEXT:
                return TELL(cl_context, q->context);
        case CL_QUEUE_DEVICE:
                return TELL(cl_device_id, &only_device);
        case CL_QUEUE_REFERENCE_COUNT:
                return TELL(cl_uint, (cl_uint) q->object.refs);
        case CL_QUEUE_PROPERTIES:
                return TELL(cl_command_queue_properties, q->properties);
        default:
                return CL_INVALID_VALUE;
        }
}

static cl_int event_info(cl_event e, cl_event_info what, size_t size, void *ret, size_t *ret_size) {
        switch (what) {
        case CL_EVENT_COMMAND_EXECUTION_STATUS:
                return TELL(cl_int, paced_is_over(e) ? CL_COMPLETE : CL_SUBMITTED);
        case CL_EVENT_COMMAND_QUEUE:
                return TELL(cl_command_queue, e->queue);
        case CL_EVENT_COMMAND_TYPE:
                return TELL(cl_command_type, e->type);
        case CL_EVENT_CONTEXT:
                return TELL(cl_context, e->queue->context);
        case CL_EVENT_REFERENCE_COUNT:
                return TELL(cl_uint, (cl_uint) e->object.refs);
        default:
                return CL_INVALID_VALUE;
        }
}

static cl_int profiling_info(cl_event e, cl_profiling_info what, size_t size, void *ret, size_t *ret_size) {
        if (!(e->queue->properties & CL_QUEUE_PROFILING_ENABLE) || !e->over)
                return CL_PROFILING_INFO_NOT_AVAILABLE;
        return TELL(cl_ulong, what == CL_PROFILING_COMMAND_END ? e->span.end_ns : e->span.begin_ns);
}

/* --- making and releasing --- */

static cl_context context_new(const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *ret) {
        return answer(paced_has_device() ? paced_object_new(sizeof(struct _cl_context)) : NULL, ret);
}

static cl_command_queue queue_new(
                cl_context context, cl_device_id d, cl_command_queue_properties properties, cl_int *ret) {
        cl_command_queue q = paced_object_new(sizeof(*q));

        if (q) {
                q->context = context;
                q->properties = properties;
        }
        return answer(q, ret);
}

static cl_command_queue queue_new_with(
                cl_context context, cl_device_id d, const cl_queue_properties *properties, cl_int *ret) {
        cl_command_queue_properties flags = 0;

        for (const cl_queue_properties *p = properties; p && p[0] != 0; p += 2)
                if (p[0] == CL_QUEUE_PROPERTIES)
                        flags = (cl_command_queue_properties) p[1];
        return queue_new(context, d, flags, ret);
}

static cl_mem buffer_new(cl_context context, cl_mem_flags flags, size_t size, void *from, cl_int *ret) {
        cl_mem m = paced_object_new(sizeof(*m) + size);

        if (m)
                m->size = size;
        if (m && flags & CL_MEM_COPY_HOST_PTR)
                memcpy(m->data, from, size);
        return answer(m, ret);
}

static cl_program program_new(cl_context context, cl_uint n, const char **parts, const size_t *sizes, cl_int *ret) {
        return answer(paced_object_new(sizeof(struct _cl_program)), ret);
}

static cl_int program_build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
        return CL_SUCCESS;
}

static cl_kernel kernel_new(cl_program program, const char *name, cl_int *ret) {
        for (Function f = 0; f < _FUNCTION_MAX; f++)
                if (function_names[f] && streq(function_names[f], name)) {
                        cl_kernel k = paced_object_new(sizeof(*k));
                        if (k)
                                k->function = f;
                        return answer(k, ret);
                }
        if (ret)
                *ret = CL_INVALID_KERNEL_NAME;
        return NULL;
}

static cl_int kernel_set(cl_kernel k, cl_uint i, size_t size, const void *value) {
        if (i >= ARGUMENTS || size > sizeof(Argument))
                return CL_INVALID_ARG_INDEX;
        memcpy(k->arguments + i, value, size);
        return CL_SUCCESS;
}

#define REFERENCES(what, type)                                                                                         \
        static cl_int what##_retain(type o) {                                                                          \
                return paced_object_retain(&o->object);                                                                \
        }                                                                                                              \
        static cl_int what##_release(type o) {                                                                         \
                return paced_object_release(&o->object);                                                               \
        }

REFERENCES(context, cl_context)
REFERENCES(queue, cl_command_queue)
REFERENCES(buffer, cl_mem)
REFERENCES(program, cl_program)
REFERENCES(kernel, cl_kernel)
REFERENCES(event, cl_event)

_icd_ void *clGetExtensionFunctionAddress(const char *name) {
        return streq(name, "clIcdGetPlatformIDsKHR") ? (void *) (uintptr_t) platform_ids : NULL;
}

static void *extension_for(cl_platform_id p, const char *name) {
        return clGetExtensionFunctionAddress(name);
}

const cl_icd_dispatch paced_dispatch = {
                .clGetPlatformIDs = platform_ids,
                .clGetPlatformInfo = platform_info,
                .clGetDeviceIDs = device_ids,
                .clGetDeviceInfo = device_info,
                .clCreateContext = context_new,
                .clRetainContext = context_retain,
                .clReleaseContext = context_release,
                .clCreateCommandQueue = queue_new,
                .clCreateCommandQueueWithProperties = queue_new_with,
                .clRetainCommandQueue = queue_retain,
                .clReleaseCommandQueue = queue_release,
                .clGetCommandQueueInfo = queue_info,
                .clCreateBuffer = buffer_new,
                .clRetainMemObject = buffer_retain,
                .clReleaseMemObject = buffer_release,
                .clCreateProgramWithSource = program_new,
                .clBuildProgram = program_build,
                .clRetainProgram = program_retain,
                .clReleaseProgram = program_release,
                .clCreateKernel = kernel_new,
                .clSetKernelArg = kernel_set,
                .clRetainKernel = kernel_retain,
                .clReleaseKernel = kernel_release,
                .clEnqueueNDRangeKernel = paced_launch,
                .clEnqueueReadBuffer = paced_read_buffer,
                .clEnqueueMarkerWithWaitList = paced_marker,
                .clFlush = paced_flush,
                .clFinish = paced_finish,
                .clWaitForEvents = paced_wait_for_events,
                .clGetEventInfo = event_info,
                .clGetEventProfilingInfo = profiling_info,
                .clSetEventCallback = paced_set_callback,
                .clRetainEvent = event_retain,
                .clReleaseEvent = event_release,
                .clGetExtensionFunctionAddress = clGetExtensionFunctionAddress,
                .clGetExtensionFunctionAddressForPlatform = extension_for,
};

_icd_ cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms) {
        return platform_ids(num_entries, platforms, num_platforms);
}

_icd_ cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info param_name, size_t param_value_size,
                void *param_value, size_t *param_value_size_ret) {
        return platform_info(platform, param_name, param_value_size, param_value, param_value_size_ret);
}
