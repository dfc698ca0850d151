/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CUDA's streams
 */

#include <stdio.h>

#include "include/xsched-compat/xsched/cuda/hal.h"
#include "shim/compat/compat.h"
#include "shim/compat/runtime.h"

/* The functions of the driver that are needed, with their types; 0 is success. */
typedef int (*CtxGetCurrent)(void **ret);
typedef int (*CtxSetCurrent)(void *context);
typedef int (*CtxGetDevice)(int *ret);
typedef int (*DeviceGetName)(char *name, int size, int device);
typedef int (*DeviceGetPciBusId)(char *id, int size, int device);
typedef int (*StreamSynchronize)(CUstream stream);

static struct {
        CtxGetCurrent get_current;
        CtxSetCurrent set_current;
        CtxGetDevice get_device;
        DeviceGetName get_name;
        DeviceGetPciBusId get_pci;
        StreamSynchronize synchronize;
        XschedMakeQueue make_queue; /* the layer's; NULL: there is none */
} cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

static void find(void) {
        static const char *const names[] = {"libcuda.so.1"};
        const RuntimeFunction functions[] = {
                        {"cuCtxGetCurrent", &cuda.get_current},
                        {"cuCtxSetCurrent", &cuda.set_current},
                        {"cuCtxGetDevice", &cuda.get_device},
                        {"cuDeviceGetName", &cuda.get_name},
                        {"cuDeviceGetPCIBusId", &cuda.get_pci},
                        {"cuStreamSynchronize", &cuda.synchronize},
        };
        const RuntimeFunction layer[] = {{"xsched_cuda_make_queue", &cuda.make_queue}};
        void *library = runtime_library(names, ELEMENTSOF(names));

        (void) runtime_functions(NULL, layer, ELEMENTSOF(layer));
        found = library && runtime_functions(library, functions, ELEMENTSOF(functions));
}

static CUstream native(const HwQueue *h) {
        return (CUstream) (uintptr_t) h->handle;
}

static int cuda_open(HwQueue *h, char *ret_device, char *ret_name) {
        char pci[32] = "";
        int device;

        (void) pthread_once(&once, find);
        if (!found)
                return -EOPNOTSUPP;
        if (cuda.get_current(&h->context) != 0 || !h->context || cuda.get_device(&device) != 0)
                return -EINVAL;
        if (cuda.get_name(ret_name, COMPAT_NAME_MAX, device) != 0)
                ret_name[0] = '\0';
        if (cuda.get_pci(pci, sizeof(pci), device) != 0 || !runtime_device_id(pci, ret_device))
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "cuda:%d", device);
        return 0;
}

static void cuda_announce(const HwQueue *h) {
        if (cuda.make_queue)
                cuda.make_queue(h->handle);
}

static void cuda_attach(const HwQueue *h) {
        (void) cuda.set_current(h->context);
}

static int cuda_finish(const HwQueue *h) {
        return cuda.synchronize(native(h)) == 0 ? 0 : -EIO;
}

static const Platform platform_cuda = {
                .backend = "cuda",
                .open = cuda_open,
                .announce = cuda_announce,
                .attach = cuda_attach,
                .finish = cuda_finish,
};

_public_
XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream) {
        return compat_make_hwq(&platform_cuda, stream, hwq);
}

_public_
XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream) {
        if (!hwq || !stream)
                return kXSchedErrorInvalidValue;
        CALL_HWQ(h, (uint64_t) (uintptr_t) stream);
        *hwq = h->handle;
        return kXSchedSuccess;
}
