/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * HIP's streams
 */

#include <dlfcn.h>
#include <stdio.h>

#include "include/xsched-compat/xsched/hip/hal.h"
#include "shim/compat/compat.h"

/* Of HIP what is needed; 0 is success. */
typedef int (*GetDevice)(int *ret);
typedef int (*SetDevice)(int device);
typedef int (*DeviceGetPciBusId)(char *id, int size, int device);
typedef int (*StreamSynchronize)(hipStream_t stream);

static struct {
        GetDevice get_device;
        SetDevice set_device;
        DeviceGetPciBusId get_pci;
        StreamSynchronize synchronize;
} hip;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

/* The names that releases of ROCm have had; one of them is loaded. */
static void *library(void) {
        static const char *const names[] = {"libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7",
                        "libamdhip64.so.8", "libamdhip64.so"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                void *l = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
                if (l)
                        return l;
        }
        return NULL;
}

static void find(void) {
        void *l = library();

        found = l;
#define FIND(entry, name)                                                                                   \
        hip.entry = (typeof(hip.entry)) (uintptr_t) (l ? dlsym(l, name) : NULL);                            \
        found = found && hip.entry;
        FIND(get_device, "hipGetDevice")
        FIND(set_device, "hipSetDevice")
        FIND(get_pci, "hipDeviceGetPCIBusId")
        FIND(synchronize, "hipStreamSynchronize")
#undef FIND
}

static hipStream_t native(const HwQueue *h) {
        return (hipStream_t) (uintptr_t) h->handle;
}

static int hip_open(HwQueue *h, char *ret_device, char *ret_name) {
        char pci[32] = "";
        unsigned domain, bus, slot, function = 0;
        int device;

        (void) pthread_once(&once, find);
        if (!found)
                return -EOPNOTSUPP;
        if (hip.get_device(&device) != 0)
                return -EINVAL;
        h->context = (void *) (intptr_t) device;
        (void) snprintf(ret_name, COMPAT_NAME_MAX, "HIP device %d", device);
        if (hip.get_pci(pci, sizeof(pci), device) == 0 &&
                        sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3)
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "pci:%04x:%02x:%02x.%x", domain, bus, slot,
                                function);
        else
                (void) snprintf(ret_device, COMPAT_NAME_MAX, "hip:%d", device);
        return 0;
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
                .attach = hip_attach,
                .finish = hip_finish,
};

_public_
XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream) {
        return compat_make_hwq(&platform_hip, stream, hwq);
}
