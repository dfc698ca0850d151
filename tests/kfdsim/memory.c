/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Memory of the simulated driver: every allocation is host memory at the address that the runtime chose
 *
 * Memory of the application that the GPU shall see, too, is an exception: it stays where it is, and the GPU has another
 * address for it. Private memory cannot be mapped twice, so code that reads and writes in place of the GPU translates
 * the address.
 */

#include <errno.h>
#include <pthread.h>

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

/* A handle is a GPU and a number. Freed numbers are not remembered. */
static _Atomic uint32_t next_handle = 1;

static bool handle_is_valid(uint64_t handle) {
        uint32_t number = (uint32_t) handle;

        return sim_gpu_by_id((uint32_t) (handle >> 32)) && number > 0 && number < atomic_load(&next_handle);
}

/* Memory of the application that has another address on the GPU. */
typedef struct Registered {
        struct Registered *next;
        uint64_t handle, address, size, cpu_address;
} Registered;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Registered *registered;

void sim_memory_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
        registered = NULL;
}

void *sim_memory_find(uint64_t address) {
        (void) pthread_mutex_lock(&lock);
        for (const Registered *r = registered; r; r = r->next)
                if (address - r->address < r->size) {
                        address = r->cpu_address + (address - r->address);
                        break;
                }
        (void) pthread_mutex_unlock(&lock);
        return (void *) (uintptr_t) address;
}

static int register_memory(const KfdAllocMemory *a) {
        Registered *r = malloc(sizeof(*r));

        if (!r)
                return -ENOMEM;
        (void) pthread_mutex_lock(&lock);
        *r = (Registered){.next = registered,
                        .handle = a->handle,
                        .address = a->va_addr,
                        .size = a->size,
                        .cpu_address = a->mmap_offset};
        registered = r;
        (void) pthread_mutex_unlock(&lock);
        return 0;
}

static int release(uint64_t handle) {
        if (!handle_is_valid(handle))
                return -EINVAL;
        (void) pthread_mutex_lock(&lock);
        for (Registered **p = &registered; *p; p = &(*p)->next)
                if ((*p)->handle == handle) {
                        Registered *r = *p;
                        *p = r->next;
                        free(r);
                        break;
                }
        (void) pthread_mutex_unlock(&lock);
        return 0;
}

static int allocate(KfdAllocMemory *a) {
        if (a->size == 0 || !sim_gpu_by_id(a->gpu_id))
                return -EINVAL;
        uint32_t number = atomic_fetch_add(&next_handle, 1);
        a->handle = (uint64_t) a->gpu_id << 32 | number;
        if (a->flags & KFD_ALLOC_USERPTR)
                return register_memory(a);
        if (!(a->flags & KFD_ALLOC_DOORBELL))
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
        if (sim_copy_in(devices, a->device_ids_array_ptr, MIN(a->n_devices, SIM_GPUS_MAX) * sizeof(*devices)) < 0)
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
                return release(*(uint64_t *) arg);
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
