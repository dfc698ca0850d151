/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The render node as libdrm_amdgpu would show it: the thunk asks for the GPU's name, and for nothing else
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "sim.h"

typedef void *amdgpu_device_handle;

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *ret);
int amdgpu_device_deinitialize(amdgpu_device_handle d);
const char *amdgpu_get_marketing_name(amdgpu_device_handle d);

/* A handle of ours is a pointer into the table of GPUs. */
static SimGpu *gpu_of(amdgpu_device_handle d) {
        SimWorld *w = sim_world();
        SimGpu *g = d;

        return w && g >= w->gpus && g < w->gpus + w->n_gpus ? g : NULL;
}

_public_
int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *ret) {
        int number = sim_render_number(fd);

        if (number < 0) {
                typeof(&amdgpu_device_initialize) next = (typeof(&amdgpu_device_initialize)) dlsym(
                                RTLD_NEXT, "amdgpu_device_initialize");
                return next ? next(fd, major, minor, ret) : -ENOSYS;
        }
        *major = 3;
        *minor = 57;
        *ret = sim_world()->gpus + number;
        return 0;
}

_public_
int amdgpu_device_deinitialize(amdgpu_device_handle d) {
        typeof(&amdgpu_device_deinitialize) next =
                        (typeof(&amdgpu_device_deinitialize)) dlsym(RTLD_NEXT, "amdgpu_device_deinitialize");

        return gpu_of(d) || !next ? 0 : next(d);
}

_public_
const char *amdgpu_get_marketing_name(amdgpu_device_handle d) {
        static _Thread_local char name[64];
        typeof(&amdgpu_get_marketing_name) next =
                        (typeof(&amdgpu_get_marketing_name)) dlsym(RTLD_NEXT, "amdgpu_get_marketing_name");
        const SimGpu *g = gpu_of(d);

        if (!g)
                return next ? next(d) : NULL;
        (void) snprintf(name, sizeof(name), "kfdsim %s", g->model);
        return name;
}
