/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Memory of the simulated driver: every allocation is host memory at the address that the runtime chose
 */

#include <errno.h>

#include "abi.h"
#include "sim.h"

#define APERTURE_LDS     UINT64_C(0x1000000000000)
#define APERTURE_SCRATCH UINT64_C(0x2000000000000)
#define GPUVM_LIMIT      UINT64_C(0x7fffffffffff)

static int apertures(KfdGetApertures *a) {
        const SimWorld *w = sim_world();
        KfdApertures *out = (void *) (uintptr_t) a->apertures_ptr;
        uint32_t n = MIN(a->num_of_nodes, w->n_gpus);

        for (uint32_t i = 0; out && i < n; i++)
                out[i] = (KfdApertures){
                                .gpu_id = w->gpus[i].gpu_id,
                                .lds_base = APERTURE_LDS,
                                .lds_limit = APERTURE_LDS + UINT32_MAX,
                                .scratch_base = APERTURE_SCRATCH,
                                .scratch_limit = APERTURE_SCRATCH + UINT32_MAX,
                                .gpuvm_base = 0x200000,
                                .gpuvm_limit = GPUVM_LIMIT,
                };
        a->num_of_nodes = w->n_gpus;
        return 0;
}

/* A handle is a GPU and a number. That a number has been freed is not remembered. */
static _Atomic uint32_t next_handle = 1;

static bool handle_is_valid(uint64_t handle) {
        uint32_t number = (uint32_t) handle;

        return sim_gpu_by_id((uint32_t) (handle >> 32)) && number > 0 && number < atomic_load(&next_handle);
}

static int allocate(KfdAllocMemory *a) {
        if (a->size == 0 || !sim_gpu_by_id(a->gpu_id))
                return -EINVAL;
        uint32_t number = atomic_fetch_add(&next_handle, 1);
        a->handle = (uint64_t) a->gpu_id << 32 | number;
        if (!(a->flags & (KFD_ALLOC_USERPTR | KFD_ALLOC_DOORBELL)))
                a->mmap_offset = (uint64_t) number << 12;
        return 0;
}

static int tile_config(KfdTileConfig *a) {
        if (!sim_gpu_by_id(a->gpu_id))
                return -EINVAL;
        a->num_tile_configs = a->num_macro_tile_configs = 0;
        a->gb_addr_config = a->num_banks = a->num_ranks = 0;
        return 0;
}

static int map_memory(KfdMapMemory *a) {
        uint32_t devices[SIM_GPUS_MAX];

        if (a->n_devices == 0 || a->n_success > a->n_devices)
                return -EINVAL;
        if (sim_copy_in(devices, a->device_ids_array_ptr,
                            MIN(a->n_devices, SIM_GPUS_MAX) * sizeof(*devices)) < 0)
                return -EFAULT;
        if (!handle_is_valid(a->handle))
                return -EINVAL;
        a->n_success = a->n_devices;
        return 0;
}

int sim_memory_ioctl(SimProcess *p, KfdNr nr, void *arg) {
        switch ((int) nr) {
        case KFD_NR_GET_PROCESS_APERTURES_NEW:
                return apertures(arg);
        case KFD_NR_ACQUIRE_VM:
                return sim_gpu_by_id(((KfdAcquireVm *) arg)->gpu_id) ? 0 : -EINVAL;
        case KFD_NR_SET_MEMORY_POLICY:
                return sim_gpu_by_id(((KfdMemoryPolicy *) arg)->gpu_id) ? 0 : -EINVAL;
        case KFD_NR_SET_SCRATCH_BACKING_VA:
                return sim_gpu_by_id(((KfdScratchBacking *) arg)->gpu_id) ? 0 : -EINVAL;
        case KFD_NR_SET_TRAP_HANDLER:
                return sim_gpu_by_id(((KfdTrapHandler *) arg)->gpu_id) ? 0 : -EINVAL;
        case KFD_NR_GET_TILE_CONFIG:
                return tile_config(arg);
        case KFD_NR_AVAILABLE_MEMORY: {
                KfdAvailableMemory *a = arg;
                a->available = UINT64_C(15) << 30;
                return sim_gpu_by_id(a->gpu_id) ? 0 : -EINVAL;
        }
        case KFD_NR_SET_XNACK_MODE:
                ((KfdXnackMode *) arg)->xnack_enabled = 0;
                return 0;
        case KFD_NR_ALLOC_MEMORY:
                return allocate(arg);
        case KFD_NR_FREE_MEMORY:
                return handle_is_valid(*(uint64_t *) arg) ? 0 : -EINVAL;
        case KFD_NR_MAP_MEMORY:
        case KFD_NR_UNMAP_MEMORY:
                return map_memory(arg);
        case KFD_NR_SVM:
        case KFD_NR_SMI_EVENTS:
                return -EINVAL;
        default:
                return -EOPNOTSUPP;
        }
}
