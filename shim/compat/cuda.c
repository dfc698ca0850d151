/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CUDA's streams
 */

#include <dlfcn.h>
#include <stdio.h>

#include "include/xsched-compat/xsched/cuda/hal.h"
#include "shim/compat/compat.h"

/* Of the driver's interface what is needed, with its types; 0 is success. */
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
} cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

static void find(void) {
        void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

        found = library;
#define FIND(entry, name)                                                                                   \
        cuda.entry = (typeof(cuda.entry)) (uintptr_t) (library ? dlsym(library, name) : NULL);              \
        found = found && cuda.entry;
        FIND(get_current, "cuCtxGetCurrent")
        FIND(set_current, "cuCtxSetCurrent")
        FIND(get_device, "cuCtxGetDevice")
        FIND(get_name, "cuDeviceGetName")
        FIND(get_pci, "cuDeviceGetPCIBusId")
        FIND(synchronize, "cuStreamSynchronize")
#undef FIND
}

static CUstream native(const HwQueue *h) {
        return (CUstream) (uintptr_t) h->handle;
}

static int cuda_open(HwQueue *h, char *ret_device, char *ret_name) {
        char pci[32] = "";
        unsigned domain, bus, slot, function;
        int device;

        (void) pthread_once(&once, find);
        if (!found)
                return -EOPNOTSUPP;
        if (cuda.get_current(&h->context) != 0 || !h->context || cuda.get_device(&device) != 0)
                return -EINVAL;
        if (cuda.get_name(ret_name, COMPAT_NAME_MAX, device) != 0)
                ret_name[0] = '\0';
        /* As the layer calls it. */
        if (cuda.get_pci(pci, sizeof(pci), device) == 0 &&
                        sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "pci:%04x:%02x:%02x.%x", domain, bus, slot,
                                function);
        else
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "cuda:%d", device);
        return 0;
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
                .attach = cuda_attach,
                .finish = cuda_finish,
};

_public_
XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream) {
        return compat_make_hwq(&platform_cuda, stream, hwq);
}

_public_
XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream) {
        PROTECT_ERRNO;

        if (!hwq || !stream)
                return kXSchedErrorInvalidValue;
        _cleanup_(compat_unref_hwqp)
        HwQueue *h = compat_get_hwq((uint64_t) (uintptr_t) stream);
        if (!h)
                return kXSchedErrorNotFound;
        *hwq = h->handle;
        return kXSchedSuccess;
}
