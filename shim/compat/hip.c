/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * HIP's streams
 */

#include <stdio.h>

#include "include/xsched-compat/xsched/hip/hal.h"
#include "shim/compat/compat.h"
#include "shim/compat/runtime.h"

/* The functions of HIP that are needed; 0 is success. */
typedef int (*GetDevice)(int *ret);
typedef int (*SetDevice)(int device);
typedef int (*DeviceGetPciBusId)(char *id, int size, int device);
typedef int (*StreamSynchronize)(hipStream_t stream);

static struct {
        GetDevice get_device;
        SetDevice set_device;
        DeviceGetPciBusId get_pci;
        StreamSynchronize synchronize; /* the layer's, where there is one */
        XschedMakeQueue make_queue;    /* the layer's; NULL: there is none */
} hip;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

static void find(void) {
        /* The names that releases of ROCm have had. */
        static const char *const names[] = {"libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7",
                        "libamdhip64.so.8", "libamdhip64.so"};
        const RuntimeFunction functions[] = {
                        {"hipGetDevice", &hip.get_device},
                        {"hipSetDevice", &hip.set_device},
                        {"hipDeviceGetPCIBusId", &hip.get_pci},
                        {"hipStreamSynchronize", &hip.synchronize},
        };
        const RuntimeFunction layer[] = {{"xsched_hip_make_queue", &hip.make_queue}};
        const RuntimeFunction layers_own[] = {{"hipStreamSynchronize", &hip.synchronize}};
        void *library = runtime_library(names, ELEMENTSOF(names));

        (void) runtime_functions(NULL, layer, ELEMENTSOF(layer));
        found = library && runtime_functions(library, functions, ELEMENTSOF(functions));
        if (found && hip.make_queue)
                found = runtime_functions(NULL, layers_own, ELEMENTSOF(layers_own));
}

static hipStream_t native(const HwQueue *h) {
        return (hipStream_t) (uintptr_t) h->handle;
}

static int hip_open(HwQueue *h, char *ret_device, char *ret_name) {
        char pci[32] = "";
        int device;

        (void) pthread_once(&once, find);
        if (!found)
                return -EOPNOTSUPP;
        if (hip.get_device(&device) != 0)
                return -EINVAL;
        h->context = (void *) (intptr_t) device;
        (void) snprintf(ret_name, COMPAT_NAME_MAX, "HIP device %d", device);
        if (hip.get_pci(pci, sizeof(pci), device) != 0 || !runtime_device_id(pci, ret_device))
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "hip:%d", device);
        return 0;
}

static void hip_announce(const HwQueue *h) {
        if (hip.make_queue)
                hip.make_queue(h->handle);
}

static void hip_attach(const HwQueue *h) {
        (void) hip.set_device((int) (intptr_t) h->context);
}

static int hip_finish(const HwQueue *h) {
        return hip.synchronize(native(h)) == 0 ? 0 : -EIO;
}

static const Platform platform_hip = {
                .backend = "hip",
                .open = hip_open,
                .announce = hip_announce,
                .attach = hip_attach,
                .finish = hip_finish,
};

_public_
XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream) {
        return compat_make_hwq(&platform_hip, stream, hwq);
}
