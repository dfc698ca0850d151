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

static int allocate(KfdAllocMemory *a) {
        static _Atomic uint64_t next = 1;

        if (a->size == 0 || !sim_gpu_by_id(a->gpu_id))
                return -EINVAL;
        a->handle = atomic_fetch_add(&next, 1);
        if (!(a->flags & (KFD_ALLOC_USERPTR | KFD_ALLOC_DOORBELL)))
                a->mmap_offset = a->handle << 12;
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
        a->n_success = a->n_devices;
        return a->n_devices > 0 ? 0 : -EINVAL;
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
                return 0;
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
