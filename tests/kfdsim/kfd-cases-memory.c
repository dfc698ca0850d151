/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about memory
 */

#include "tests/kfdsim/kfd-cases.h"

static int unknown_gpu(int fd) {
        KfdAcquireVm vm = {.drm_fd = (uint32_t) fd, .gpu_id = NO_SUCH_GPU};
        KfdMemoryPolicy policy = {.gpu_id = NO_SUCH_GPU};
        KfdScratchBacking scratch = {.gpu_id = NO_SUCH_GPU};
        KfdTrapHandler trap = {.gpu_id = NO_SUCH_GPU};
        KfdTileConfig tile = {.gpu_id = NO_SUCH_GPU};
        KfdAvailableMemory available = {.gpu_id = NO_SUCH_GPU};
        KfdAllocMemory alloc = {.gpu_id = NO_SUCH_GPU, .size = 4096, .va_addr = 0x100000};
        KfdAllocMemory none = {.gpu_id = NO_SUCH_GPU};

        return expect("ACQUIRE_VM", KFD_CALL(fd, KFD_NR_ACQUIRE_VM, vm), -EINVAL)
                        ?: expect("SET_MEMORY_POLICY", KFD_CALL(fd, KFD_NR_SET_MEMORY_POLICY, policy), -EINVAL)
                        ?: expect("SET_SCRATCH", KFD_CALL(fd, KFD_NR_SET_SCRATCH_BACKING_VA, scratch), -EINVAL)
                        ?: expect("SET_TRAP_HANDLER", KFD_CALL(fd, KFD_NR_SET_TRAP_HANDLER, trap), -EINVAL)
                        ?: expect("GET_TILE_CONFIG", KFD_CALL(fd, KFD_NR_GET_TILE_CONFIG, tile), -EINVAL)
                        ?: expect("AVAILABLE_MEMORY", KFD_CALL(fd, KFD_NR_AVAILABLE_MEMORY, available), -EINVAL)
                        ?: expect("ALLOC_MEMORY", KFD_CALL(fd, KFD_NR_ALLOC_MEMORY, alloc), -EINVAL)
                        ?: expect("ALLOC_MEMORY of nothing", KFD_CALL(fd, KFD_NR_ALLOC_MEMORY, none), -EINVAL);
}

static int case_unknown_gpu(void) {
        return with_kfd(unknown_gpu);
}

static int unknown_memory(int fd) {
        uint64_t handle = (uint64_t) NO_SUCH_GPU << 32 | 1;
        uint32_t gpus[1] = {NO_SUCH_GPU};
        KfdMapMemory none = {.handle = handle};
        KfdMapMemory map = {.handle = handle, .device_ids_array_ptr = (uint64_t) (uintptr_t) gpus, .n_devices = 1};
        KfdMapMemory nowhere = {.handle = handle, .n_devices = 1};

        return expect("FREE_MEMORY of none", KFD_CALL(fd, KFD_NR_FREE_MEMORY, handle), -EINVAL)
                        ?: expect("MAP_MEMORY to no GPU", KFD_CALL(fd, KFD_NR_MAP_MEMORY, none), -EINVAL)
                        ?: expect("MAP_MEMORY of none", KFD_CALL(fd, KFD_NR_MAP_MEMORY, map), -EINVAL)
                        ?: expect("MAP_MEMORY from nowhere", KFD_CALL(fd, KFD_NR_MAP_MEMORY, nowhere), -EFAULT)
                        ?: expect("UNMAP_MEMORY of none", KFD_CALL(fd, KFD_NR_UNMAP_MEMORY, map), -EINVAL);
}

static int case_unknown_memory(void) {
        return with_kfd(unknown_memory);
}

const Case memory_cases[] = {
                {"unknown-gpu", case_unknown_gpu},
                {"unknown-memory", case_unknown_memory},
                {NULL, NULL},
};
