/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The render node as libdrm_amdgpu shows it, as far as the thunk and ROCr use it
 *
 * As in libdrm, all who initialize one node share a handle and its fd, a duplicate of the first one's: ROCr's thunk
 * maps memory by the fd of the handle, and closes its own.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "shim/kfd/kfd-drm.h"
#include "sim.h"

#define DRM_MAJOR 3U
#define DRM_MINOR 57U

#define FAMILY_GFX9  141U
#define FAMILY_GFX10 143U
#define FAMILY_GFX11 145U
#define FAMILY_GFX12 152U

typedef struct amdgpu_device {
        unsigned n_users;
        int fd;
} * amdgpu_device_handle;

/* libdrm's, whole: the caller has room for that much. */
struct amdgpu_gpu_info {
        uint32_t asic_id, chip_rev, chip_external_rev, family_id;
        uint64_t ids_flags, max_engine_clk, max_memory_clk;
        uint32_t num_shader_engines, num_shader_arrays_per_engine;
        uint32_t quad_pipes[3], num_hw_gfx_contexts, rb_pipes[2], gpu_counter_freq;
        uint32_t backend_disable[4], mc_arb_ramcfg, gb_addr_cfg, gb_tile_mode[32], gb_macro_tile_mode[16];
        uint32_t pa_sc_raster_cfg[8], cu_active_number, cu_ao_mask, cu_bitmap[4][4];
        uint32_t vram_type, vram_bit_width, ce_ram_size, vce_harvest_config, pci_rev_id;
};

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *ret);
int amdgpu_device_deinitialize(amdgpu_device_handle d);
int amdgpu_device_get_fd(amdgpu_device_handle d);
const char *amdgpu_get_marketing_name(amdgpu_device_handle d);
int amdgpu_query_gpu_info(amdgpu_device_handle d, struct amdgpu_gpu_info *ret);

#define NEXT(name) ((typeof(&name)) dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct amdgpu_device devices[SIM_GPUS_MAX];

static const SimGpu *gpu_of(amdgpu_device_handle d) {
        return d >= devices && d < devices + SIM_GPUS_MAX ? sim_world()->gpus + (d - devices) : NULL;
}

/* amdgpu's own queues: a number for each, and nothing that executes. */
int sim_render_userq(void *arg) {
        static _Atomic uint32_t n_made;
        DrmUserq *a = arg;

        if (!a) {
                errno = EFAULT;
                return -1;
        }
        if (a->op == DRM_USERQ_CREATE) {
                a->op = atomic_fetch_add(&n_made, 1) + 1;
                a->queue_id = 0;
                return 0;
        }
        if (a->op == DRM_USERQ_FREE && a->queue_id > 0 && a->queue_id <= atomic_load(&n_made))
                return 0;
        errno = EINVAL;
        return -1;
}

void sim_render_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
}

_public_
int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *ret) {
        int number = sim_render_number(fd), r = 0;

        if (number < 0) {
                typeof(&amdgpu_device_initialize) next = NEXT(amdgpu_device_initialize);
                return next ? next(fd, major, minor, ret) : -ENOSYS;
        }
        amdgpu_device_handle d = devices + number;
        (void) pthread_mutex_lock(&lock);
        if (d->n_users == 0)
                d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (d->fd < 0)
                r = -errno;
        else
                d->n_users++;
        (void) pthread_mutex_unlock(&lock);
        if (r < 0)
                return r;
        *major = DRM_MAJOR;
        *minor = DRM_MINOR;
        *ret = d;
        return 0;
}

_public_
int amdgpu_device_deinitialize(amdgpu_device_handle d) {
        if (!gpu_of(d)) {
                typeof(&amdgpu_device_deinitialize) next = NEXT(amdgpu_device_deinitialize);
                return next ? next(d) : 0;
        }
        (void) pthread_mutex_lock(&lock);
        if (d->n_users > 0 && --d->n_users == 0)
                (void) close(d->fd);
        (void) pthread_mutex_unlock(&lock);
        return 0;
}

_public_
int amdgpu_device_get_fd(amdgpu_device_handle d) {
        typeof(&amdgpu_device_get_fd) next = NEXT(amdgpu_device_get_fd);

        if (gpu_of(d))
                return d->fd;
        return next ? next(d) : -ENOSYS;
}

_public_
const char *amdgpu_get_marketing_name(amdgpu_device_handle d) {
        static _Thread_local char name[64] __attribute__((tls_model("initial-exec"))); /* as in interpose.c */
        typeof(&amdgpu_get_marketing_name) next = NEXT(amdgpu_get_marketing_name);
        const SimGpu *g = gpu_of(d);

        if (!g)
                return next ? next(d) : NULL;
        (void) snprintf(name, sizeof(name), "kfdsim %s", g->model);
        return name;
}

static uint32_t gpu_family(const SimGpu *g) {
        switch (g->gfx_target_version / 10000) {
        case 9:
                return FAMILY_GFX9;
        case 10:
                return FAMILY_GFX10;
        case 11:
                return FAMILY_GFX11;
        default:
                return FAMILY_GFX12;
        }
}

_public_
int amdgpu_query_gpu_info(amdgpu_device_handle d, struct amdgpu_gpu_info *ret) {
        typeof(&amdgpu_query_gpu_info) next = NEXT(amdgpu_query_gpu_info);
        const SimGpu *g = gpu_of(d);

        if (!g)
                return next ? next(d, ret) : -ENOSYS;
        *ret = (struct amdgpu_gpu_info){
                        .asic_id = g->device_id,
                        .family_id = gpu_family(g),
                        .max_engine_clk = 1700000,
                        .max_memory_clk = 1600000,
                        .num_shader_engines = 8,
                        .num_shader_arrays_per_engine = 1,
                        .gpu_counter_freq = 100000,
                        .cu_active_number = g->n_cus,
        };
        return 0;
}
