/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * OpenCL's command queues
 */

#include <dlfcn.h>

#include "include/xsched-compat/xsched/opencl/hal.h"
#include "shim/compat/compat.h"
#include "shim/compat/runtime.h"
#include "shim/opencl/opencl-device.h"
#include "shim/opencl/opencl-next.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

/* Finds the functions of the libOpenCL that the program has loaded; those of a layer, where one is in front of it. */
static void find(void) {
        static const char *const names[] = {"libOpenCL.so.1"};
#define FUNCTION(name)                                                                                                 \
        { #name, &opencl_next.name }
        const RuntimeFunction functions[] = {
                        FUNCTION(clEnqueueMarkerWithWaitList),
                        FUNCTION(clFinish),
                        FUNCTION(clFlush),
                        FUNCTION(clGetCommandQueueInfo),
                        FUNCTION(clGetDeviceIDs),
                        FUNCTION(clGetDeviceInfo),
                        FUNCTION(clGetPlatformInfo),
                        FUNCTION(clReleaseCommandQueue),
                        FUNCTION(clReleaseEvent),
                        FUNCTION(clRetainCommandQueue),
                        FUNCTION(clWaitForEvents),
        };
#undef FUNCTION
        void *library = dlsym(RTLD_DEFAULT, "clFinish") ? NULL : runtime_library(names, ELEMENTSOF(names));

        found = runtime_functions(library, functions, ELEMENTSOF(functions));
}

static cl_command_queue native(const HwQueue *h) {
        return (cl_command_queue) (uintptr_t) h->handle;
}

static int opencl_open(HwQueue *h, char *ret_device, char *ret_name) {
        cl_device_id device;
        OpenclDevice d;

        (void) pthread_once(&once, find);
        if (!found)
                return -EOPNOTSUPP;
        if (opencl_next.clGetCommandQueueInfo(native(h), CL_QUEUE_DEVICE, sizeof(device), &device, NULL) !=
                                        CL_SUCCESS ||
                        opencl_next.clRetainCommandQueue(native(h)) != CL_SUCCESS)
                return -EINVAL;
        opencl_device_describe(device, &d);
        memcpy(ret_device, d.id, COMPAT_NAME_MAX);
        memcpy(ret_name, d.name, COMPAT_NAME_MAX);
        return 0;
}

static void opencl_close(HwQueue *h) {
        (void) opencl_next.clReleaseCommandQueue(native(h));
}

static int opencl_finish(const HwQueue *h) {
        return opencl_next.clFinish(native(h)) == CL_SUCCESS ? 0 : -EIO;
}

static void *opencl_mark(const HwQueue *h) {
        cl_event event;

        if (opencl_next.clEnqueueMarkerWithWaitList(native(h), 0, NULL, &event) != CL_SUCCESS)
                return NULL;
        (void) opencl_next.clFlush(native(h));
        return event;
}

static void opencl_wait(void *mark) {
        cl_event event = mark;

        (void) opencl_next.clWaitForEvents(1, &event);
        (void) opencl_next.clReleaseEvent(event);
}

static const Platform platform_opencl = {
                .backend = "opencl",
                .open = opencl_open,
                .close = opencl_close,
                .finish = opencl_finish,
                .mark = opencl_mark,
                .wait = opencl_wait,
};

_public_
XResult OclQueueCreate(HwQueueHandle *hwq, cl_command_queue cmdq) {
        return compat_make_hwq(&platform_opencl, cmdq, hwq);
}
