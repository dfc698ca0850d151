/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Compares hal/kfd-abi.h with the kernel's own header: compiles, or names what differs. Run by test-kfd-header.
 */

#include <drm/drm.h>
#include <linux/kfd_ioctl.h>

#include "hal/kfd-abi.h"
#include "tests/kfdsim/abi.h"

#define SAME(ours, theirs)             _Static_assert((ours) == (theirs), #ours " is not " #theirs)
#define SAME_SIZE(ours, theirs)        SAME(sizeof(ours), sizeof(struct theirs))
#define SAME_FIELD(ours, a, theirs, b) SAME(offsetof(ours, a), offsetof(struct theirs, b))

SAME(KFD_API_MAJOR, KFD_IOCTL_MAJOR_VERSION);
SAME(KFD_PERCENTAGE_MAX, KFD_MAX_QUEUE_PERCENTAGE);
SAME(KFD_PRIORITY_MAX, KFD_MAX_QUEUE_PRIORITY);
SAME(KFD_RING_SIZE_MIN, KFD_MIN_QUEUE_RING_SIZE);

SAME(KFD_QUEUE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE);
SAME(KFD_QUEUE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA);
SAME(KFD_QUEUE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
SAME(KFD_QUEUE_SDMA_XGMI, KFD_IOC_QUEUE_TYPE_SDMA_XGMI);
SAME(KFD_QUEUE_SDMA_BY_ENGINE, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID);

SAME(KFD_IOC_GET_VERSION, AMDKFD_IOC_GET_VERSION);
SAME(KFD_IOC_CREATE_QUEUE, AMDKFD_IOC_CREATE_QUEUE);
SAME(KFD_IOC_DESTROY_QUEUE, AMDKFD_IOC_DESTROY_QUEUE);
SAME(KFD_IOC_UPDATE_QUEUE, AMDKFD_IOC_UPDATE_QUEUE);
SAME(KFD_IOC_CRIU_OP, AMDKFD_IOC_CRIU_OP);
SAME(KFD_IOC_RUNTIME_ENABLE, AMDKFD_IOC_RUNTIME_ENABLE);
SAME(KFD_IOC_DBG_TRAP, AMDKFD_IOC_DBG_TRAP);

#define SAME_NR(ours, theirs) SAME(ours, _IOC_NR(theirs))
SAME_NR(KFD_NR_SET_MEMORY_POLICY, AMDKFD_IOC_SET_MEMORY_POLICY);
SAME_NR(KFD_NR_GET_CLOCK_COUNTERS, AMDKFD_IOC_GET_CLOCK_COUNTERS);
SAME_NR(KFD_NR_GET_PROCESS_APERTURES, AMDKFD_IOC_GET_PROCESS_APERTURES);
SAME_NR(KFD_NR_CREATE_EVENT, AMDKFD_IOC_CREATE_EVENT);
SAME_NR(KFD_NR_DESTROY_EVENT, AMDKFD_IOC_DESTROY_EVENT);
SAME_NR(KFD_NR_SET_EVENT, AMDKFD_IOC_SET_EVENT);
SAME_NR(KFD_NR_RESET_EVENT, AMDKFD_IOC_RESET_EVENT);
SAME_NR(KFD_NR_WAIT_EVENTS, AMDKFD_IOC_WAIT_EVENTS);
SAME_NR(KFD_NR_SET_SCRATCH_BACKING_VA, AMDKFD_IOC_SET_SCRATCH_BACKING_VA);
SAME_NR(KFD_NR_GET_TILE_CONFIG, AMDKFD_IOC_GET_TILE_CONFIG);
SAME_NR(KFD_NR_SET_TRAP_HANDLER, AMDKFD_IOC_SET_TRAP_HANDLER);
SAME_NR(KFD_NR_GET_PROCESS_APERTURES_NEW, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW);
SAME_NR(KFD_NR_ACQUIRE_VM, AMDKFD_IOC_ACQUIRE_VM);
SAME_NR(KFD_NR_ALLOC_MEMORY, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU);
SAME_NR(KFD_NR_FREE_MEMORY, AMDKFD_IOC_FREE_MEMORY_OF_GPU);
SAME_NR(KFD_NR_MAP_MEMORY, AMDKFD_IOC_MAP_MEMORY_TO_GPU);
SAME_NR(KFD_NR_UNMAP_MEMORY, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU);
SAME_NR(KFD_NR_SET_CU_MASK, AMDKFD_IOC_SET_CU_MASK);
SAME_NR(KFD_NR_GET_QUEUE_WAVE_STATE, AMDKFD_IOC_GET_QUEUE_WAVE_STATE);
SAME_NR(KFD_NR_SMI_EVENTS, AMDKFD_IOC_SMI_EVENTS);
SAME_NR(KFD_NR_SVM, AMDKFD_IOC_SVM);
SAME_NR(KFD_NR_SET_XNACK_MODE, AMDKFD_IOC_SET_XNACK_MODE);
SAME_NR(KFD_NR_AVAILABLE_MEMORY, AMDKFD_IOC_AVAILABLE_MEMORY);
SAME_NR(KFD_NR_EXPORT_DMABUF, AMDKFD_IOC_EXPORT_DMABUF);
SAME(_KFD_NR_END, AMDKFD_COMMAND_END);

SAME_SIZE(KfdVersion, kfd_ioctl_get_version_args);
SAME_SIZE(KfdCreateQueue, kfd_ioctl_create_queue_args);
SAME_FIELD(KfdCreateQueue, doorbell_offset, kfd_ioctl_create_queue_args, doorbell_offset);
SAME_FIELD(KfdCreateQueue, ring_size, kfd_ioctl_create_queue_args, ring_size);
SAME_FIELD(KfdCreateQueue, gpu_id, kfd_ioctl_create_queue_args, gpu_id);
SAME_FIELD(KfdCreateQueue, queue_type, kfd_ioctl_create_queue_args, queue_type);
SAME_FIELD(KfdCreateQueue, queue_percentage, kfd_ioctl_create_queue_args, queue_percentage);
SAME_FIELD(KfdCreateQueue, queue_id, kfd_ioctl_create_queue_args, queue_id);
SAME_FIELD(KfdCreateQueue, ctx_save_restore_address, kfd_ioctl_create_queue_args, ctx_save_restore_address);
SAME_FIELD(KfdCreateQueue, ctl_stack_size, kfd_ioctl_create_queue_args, ctl_stack_size);
SAME_FIELD(KfdCreateQueue, sdma_engine_id, kfd_ioctl_create_queue_args, sdma_engine_id);
SAME_SIZE(KfdDestroyQueue, kfd_ioctl_destroy_queue_args);
SAME_SIZE(KfdUpdateQueue, kfd_ioctl_update_queue_args);
SAME_FIELD(KfdUpdateQueue, queue_id, kfd_ioctl_update_queue_args, queue_id);
SAME_FIELD(KfdUpdateQueue, ring_size, kfd_ioctl_update_queue_args, ring_size);
SAME_FIELD(KfdUpdateQueue, queue_percentage, kfd_ioctl_update_queue_args, queue_percentage);
SAME_FIELD(KfdUpdateQueue, queue_priority, kfd_ioctl_update_queue_args, queue_priority);

SAME_SIZE(KfdCriu, kfd_ioctl_criu_args);
SAME_FIELD(KfdCriu, pid, kfd_ioctl_criu_args, pid);
SAME_FIELD(KfdCriu, op, kfd_ioctl_criu_args, op);
SAME(KFD_CRIU_PROCESS_INFO, KFD_CRIU_OP_PROCESS_INFO);
SAME(KFD_CRIU_CHECKPOINT, KFD_CRIU_OP_CHECKPOINT);
SAME(KFD_CRIU_UNPAUSE, KFD_CRIU_OP_UNPAUSE);
SAME(KFD_CRIU_RESTORE, KFD_CRIU_OP_RESTORE);
SAME(KFD_CRIU_RESUME, KFD_CRIU_OP_RESUME);

SAME_SIZE(KfdRuntimeEnable, kfd_ioctl_runtime_enable_args);
SAME_SIZE(KfdRuntimeInfo, kfd_runtime_info);
SAME(KFD_RUNTIME_MODE_ENABLE, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
SAME(KFD_RUNTIME_MODE_TTMP_SAVE, KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK);

SAME_SIZE(KfdDbgTrap, kfd_ioctl_dbg_trap_args);
SAME_FIELD(KfdDbgTrap, enable.dbg_fd, kfd_ioctl_dbg_trap_args, enable.dbg_fd);
SAME_FIELD(KfdDbgTrap, suspend_queues.queue_array_ptr, kfd_ioctl_dbg_trap_args, suspend_queues.queue_array_ptr);
SAME_FIELD(KfdDbgTrap, suspend_queues.num_queues, kfd_ioctl_dbg_trap_args, suspend_queues.num_queues);
SAME_FIELD(KfdDbgTrap, resume_queues.queue_array_ptr, kfd_ioctl_dbg_trap_args, resume_queues.queue_array_ptr);
SAME_FIELD(KfdDbgTrap, resume_queues.num_queues, kfd_ioctl_dbg_trap_args, resume_queues.num_queues);
SAME_FIELD(KfdDbgTrap, queue_snapshot.entry_size, kfd_ioctl_dbg_trap_args, queue_snapshot.entry_size);
SAME(KFD_DBG_TRAP_ENABLE, KFD_IOC_DBG_TRAP_ENABLE);
SAME(KFD_DBG_TRAP_DISABLE, KFD_IOC_DBG_TRAP_DISABLE);
SAME(KFD_DBG_TRAP_SEND_RUNTIME_EVENT, KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT);
SAME(KFD_DBG_TRAP_SET_EXCEPTIONS_ENABLED, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED);
SAME(KFD_DBG_TRAP_SUSPEND_QUEUES, KFD_IOC_DBG_TRAP_SUSPEND_QUEUES);
SAME(KFD_DBG_TRAP_RESUME_QUEUES, KFD_IOC_DBG_TRAP_RESUME_QUEUES);
SAME(KFD_DBG_TRAP_QUERY_DEBUG_EVENT, KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT);
SAME(KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT);
SAME(KFD_DBG_TRAP_GET_DEVICE_SNAPSHOT, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT);
SAME_SIZE(KfdQueueSnapshot, kfd_queue_snapshot_entry);
SAME_FIELD(KfdQueueSnapshot, queue_id, kfd_queue_snapshot_entry, queue_id);
SAME(KFD_EXCEPTION_QUEUE_NEW, EC_QUEUE_NEW);
SAME(KFD_EXCEPTION_PROCESS_RUNTIME, EC_PROCESS_RUNTIME);
SAME(KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW), KFD_EC_MASK(EC_QUEUE_NEW));
SAME(KFD_DBG_QUEUE_ERROR, (uint32_t) KFD_DBG_QUEUE_ERROR_MASK);
SAME(KFD_DBG_QUEUE_INVALID, (uint32_t) KFD_DBG_QUEUE_INVALID_MASK);

SAME_SIZE(KfdClockCounters, kfd_ioctl_get_clock_counters_args);
SAME_SIZE(KfdApertures, kfd_process_device_apertures);
SAME_SIZE(KfdGetApertures, kfd_ioctl_get_process_apertures_new_args);
SAME_SIZE(KfdMemoryPolicy, kfd_ioctl_set_memory_policy_args);
SAME_SIZE(KfdScratchBacking, kfd_ioctl_set_scratch_backing_va_args);
SAME_SIZE(KfdTrapHandler, kfd_ioctl_set_trap_handler_args);
SAME_SIZE(KfdTileConfig, kfd_ioctl_get_tile_config_args);
SAME_SIZE(KfdAcquireVm, kfd_ioctl_acquire_vm_args);
SAME_SIZE(KfdAvailableMemory, kfd_ioctl_get_available_memory_args);
SAME_SIZE(KfdXnackMode, kfd_ioctl_set_xnack_mode_args);
SAME_SIZE(KfdAllocMemory, kfd_ioctl_alloc_memory_of_gpu_args);
SAME_SIZE(KfdMapMemory, kfd_ioctl_map_memory_to_gpu_args);
SAME_SIZE(KfdSetCuMask, kfd_ioctl_set_cu_mask_args);
SAME_SIZE(KfdWaveState, kfd_ioctl_get_queue_wave_state_args);
SAME_SIZE(KfdCreateEvent, kfd_ioctl_create_event_args);
SAME_SIZE(KfdEventId, kfd_ioctl_destroy_event_args);
SAME_SIZE(KfdEventData, kfd_event_data);
SAME_FIELD(KfdEventData, event_id, kfd_event_data, event_id);
SAME_SIZE(KfdWaitEvents, kfd_ioctl_wait_events_args);
SAME(KFD_EVENTS_MAX, KFD_SIGNAL_EVENT_LIMIT);
SAME(KFD_ALLOC_USERPTR, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR);
SAME(KFD_ALLOC_DOORBELL, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);
