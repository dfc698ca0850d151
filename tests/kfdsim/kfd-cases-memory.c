/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about memory and events
 */

#include "tests/kfdsim/kfd-cases.h"

#define CALL(fd, nr, arg) kfd_call((fd), _IOWR(KFD_IOCTL_BASE, (nr), (arg)), &(arg))

static int unknown_gpu(int fd) {
        KfdAcquireVm vm = {.drm_fd = (uint32_t) fd, .gpu_id = NO_SUCH_GPU};
        KfdMemoryPolicy policy = {.gpu_id = NO_SUCH_GPU};
        KfdScratchBacking scratch = {.gpu_id = NO_SUCH_GPU};
        KfdTrapHandler trap = {.gpu_id = NO_SUCH_GPU};
        KfdTileConfig tile = {.gpu_id = NO_SUCH_GPU};
        KfdAvailableMemory available = {.gpu_id = NO_SUCH_GPU};
        KfdAllocMemory alloc = {.gpu_id = NO_SUCH_GPU, .size = 4096, .va_addr = 0x100000};
        KfdAllocMemory none = {.gpu_id = NO_SUCH_GPU};

        return expect("ACQUIRE_VM", CALL(fd, KFD_NR_ACQUIRE_VM, vm), -EINVAL)
                        ?: expect("SET_MEMORY_POLICY", CALL(fd, KFD_NR_SET_MEMORY_POLICY, policy), -EINVAL)
                        ?: expect("SET_SCRATCH_BACKING_VA", CALL(fd, KFD_NR_SET_SCRATCH_BACKING_VA, scratch), -EINVAL)
                        ?: expect("SET_TRAP_HANDLER", CALL(fd, KFD_NR_SET_TRAP_HANDLER, trap), -EINVAL)
                        ?: expect("GET_TILE_CONFIG", CALL(fd, KFD_NR_GET_TILE_CONFIG, tile), -EINVAL)
                        ?: expect("AVAILABLE_MEMORY", CALL(fd, KFD_NR_AVAILABLE_MEMORY, available), -EINVAL)
                        ?: expect("ALLOC_MEMORY", CALL(fd, KFD_NR_ALLOC_MEMORY, alloc), -EINVAL)
                        ?: expect("ALLOC_MEMORY of nothing", CALL(fd, KFD_NR_ALLOC_MEMORY, none), -EINVAL);
}

static int case_unknown_gpu(void) {
        return with_kfd(unknown_gpu);
}

static int unknown_memory(int fd) {
        uint64_t handle = (uint64_t) NO_SUCH_GPU << 32 | 1;
        uint32_t gpus[1] = {NO_SUCH_GPU};
        KfdMapMemory none = {.handle = handle};
        KfdMapMemory map = {.handle = handle,
                        .device_ids_array_ptr = (uint64_t) (uintptr_t) gpus,
                        .n_devices = 1};
        KfdMapMemory nowhere = {.handle = handle, .n_devices = 1};

        return expect("FREE_MEMORY of none", CALL(fd, KFD_NR_FREE_MEMORY, handle), -EINVAL)
                        ?: expect("MAP_MEMORY to no GPU", CALL(fd, KFD_NR_MAP_MEMORY, none), -EINVAL)
                        ?: expect("MAP_MEMORY of none", CALL(fd, KFD_NR_MAP_MEMORY, map), -EINVAL)
                        ?: expect("MAP_MEMORY with GPUs from nowhere", CALL(fd, KFD_NR_MAP_MEMORY, nowhere), -EFAULT)
                        ?: expect("UNMAP_MEMORY of none", CALL(fd, KFD_NR_UNMAP_MEMORY, map), -EINVAL);
}

static int case_unknown_memory(void) {
        return with_kfd(unknown_memory);
}

static int events(int fd) {
        KfdCreateEvent e = {.auto_reset = 1};
        int r = expect("CREATE_EVENT", CALL(fd, KFD_NR_CREATE_EVENT, e), 0);
        KfdEventId id = {.event_id = e.event_id}, none = {.event_id = KFD_EVENTS_MAX};
        KfdEventData data = {.event_id = e.event_id}, no_data = {.event_id = KFD_EVENTS_MAX};
        KfdWaitEvents w = {.events_ptr = (uint64_t) (uintptr_t) &data, .num_events = 1};
        KfdWaitEvents bad = {.events_ptr = (uint64_t) (uintptr_t) &no_data, .num_events = 1};
        KfdWaitEvents nowhere = {.num_events = 1};

        r = r ?: expect("WAIT_EVENTS, not set", CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has timed out", (int) w.wait_result, KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT", CALL(fd, KFD_NR_SET_EVENT, id), 0);
        r = r ?: expect("WAIT_EVENTS, set", CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has completed", (int) w.wait_result, KFD_WAIT_COMPLETE);
        r = r ?: expect("WAIT_EVENTS, reset by itself", CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has timed out", (int) w.wait_result, KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT of none", CALL(fd, KFD_NR_SET_EVENT, none), -EINVAL);
        r = r ?: expect("RESET_EVENT of none", CALL(fd, KFD_NR_RESET_EVENT, none), -EINVAL);
        r = r ?: expect("DESTROY_EVENT of none", CALL(fd, KFD_NR_DESTROY_EVENT, none), -EINVAL);
        r = r ?: expect("WAIT_EVENTS for none", CALL(fd, KFD_NR_WAIT_EVENTS, bad), -EINVAL);
        r = r
                        ?: expect("WAIT_EVENTS with events from nowhere",
                                           CALL(fd, KFD_NR_WAIT_EVENTS, nowhere), -EFAULT);
        r = r ?: expect("DESTROY_EVENT", CALL(fd, KFD_NR_DESTROY_EVENT, id), 0);
        return r ?: expect("DESTROY_EVENT again", CALL(fd, KFD_NR_DESTROY_EVENT, id), -EINVAL);
}

static int case_events(void) {
        return with_kfd(events);
}

const Case memory_cases[] = {
                {"unknown-gpu", case_unknown_gpu},
                {"unknown-memory", case_unknown_memory},
                {"events", case_events},
                {NULL, NULL},
};
