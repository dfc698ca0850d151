/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions for tests of the CUDA layer: its records as text, and a stop without a service
 *
 * Linked with the layer's objects. tests/bench/cuda/nvrm-probe.py calls the same on a machine with a GPU.
 */

#include <stdio.h>
#include <sys/ioctl.h>

#include "common/macro.h"
#include "shim/cuda/cuda-rm.h"
#include "shim/cuda/cuda-version.h"

#define RM_LOCKED()                                                                                                    \
        _cleanup_(cuda_rm_unlockp)                                                                                     \
        bool _locked = cuda_rm_lock();                                                                                 \
        if (!_locked)

/* Describes this process's objects of the driver as text. Returns its length. */
size_t xsched_cuda_describe(char *ret, size_t size);

/* Stops all channels of this process, or lets them go, whatever the service says, until it says something else.
 * Returns 0 or a negative errno. */
int xsched_cuda_stop(int stop);

static const char *what_is(const CudaObject *o) {
        return cuda_class_is_client(o->class)             ? "client"
                        : cuda_class_is_device(o->class)  ? "device"
                        : cuda_class_is_group(o->class)   ? "group"
                        : cuda_class_is_channel(o->class) ? "channel"
                                                          : "subdevice";
}

/* The driver's version, as any client's file tells it. */
static void ask_version(NvrmVersion *ret) {
        *ret = (NvrmVersion){.command = NVRM_VERSION_QUERY, .text = "?"};
        for (const CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_class_is_client(o->class) &&
                                ioctl(o->file.fd, NVRM_IOC(NVRM_NR_VERSION, NvrmVersion), ret) >= 0)
                        return;
}

_public_
size_t xsched_cuda_describe(char *ret, size_t size) {
        NvrmVersion version;
        size_t n = 0;

        RM_LOCKED() return 0;
        ask_version(&version);
        (void) cuda_rm_gpu(""); /* looks again which objects are of which GPU */
#define SAY(...) n += (size_t) snprintf(ret + MIN(n, size), size - MIN(n, size), __VA_ARGS__)
        SAY("driver %.63s: %s\n", version.text, cuda_version_is_on() ? "on" : "off");
        for (const CudaObject *o = cuda_objects(); o; o = o->next) {
                SAY("%s client=%x object=%x parent=%x class=%x", what_is(o), o->client, o->id, o->parent, o->class);
                if (cuda_class_is_client(o->class))
                        SAY(" fd=%d", o->file.fd);
                if (cuda_class_is_group(o->class))
                        SAY(" engine=%u sliced=%d", o->engine, o->sliced);
                if (cuda_object_has_channels(o))
                        SAY(" gpu=%s subdevice=%x held=%d", o->gpu ? o->gpu->id : "?", o->hal.subdevice,
                                        o->hal.hal.held);
                if (cuda_object_is_one_channel(o))
                        SAY(" scheduled=%d stopped=%d unsure=%d lost=%d", o->scheduled, o->channel.stopped,
                                        o->channel.unsure, o->channel.lost);
                SAY("%s%s\n", o->same ? " copy" : "", o->leaving > 0 ? " leaving" : "");
        }
#undef SAY
        return n;
}

_public_
int xsched_cuda_stop(int stop) {
        int result = 0;

        RM_LOCKED() return -EBUSY;
        if (!cuda_rm_gpus())
                return -ENODEV;
        for (CudaGpu *g = cuda_rm_gpus(); g; g = g->next) {
                int r = cuda_rm_stop(g, stop);
                if (r < 0)
                        result = r;
        }
        return result;
}
