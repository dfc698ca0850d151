/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The rest of KFD's binary interface, which only the simulator speaks; see hal/kfd-abi.h
 */

#include <stdint.h>

#include "hal/kfd-abi.h"

#define KFD_EVENTS_MAX 4096U

typedef struct KfdClockCounters {
        uint64_t gpu_clock_counter, cpu_clock_counter, system_clock_counter, system_clock_freq;
        uint32_t gpu_id, pad;
} KfdClockCounters;

typedef struct KfdApertures {
        uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
        uint32_t gpu_id, pad;
} KfdApertures;

typedef struct KfdGetApertures {
        uint64_t apertures_ptr;
        uint32_t num_of_nodes, pad; /* room, then how many there are */
} KfdGetApertures;

typedef struct KfdMemoryPolicy {
        uint64_t alternate_aperture_base, alternate_aperture_size;
        uint32_t gpu_id, default_policy, alternate_policy, pad;
} KfdMemoryPolicy;

typedef struct KfdScratchBacking {
        uint64_t va_addr;
        uint32_t gpu_id, pad;
} KfdScratchBacking;

typedef struct KfdTrapHandler {
        uint64_t tba_addr, tma_addr;
        uint32_t gpu_id, pad;
} KfdTrapHandler;

typedef struct KfdTileConfig {
        uint64_t tile_config_ptr, macro_tile_config_ptr;
        uint32_t num_tile_configs, num_macro_tile_configs;
        uint32_t gpu_id, gb_addr_config, num_banks, num_ranks;
} KfdTileConfig;

typedef struct KfdAcquireVm {
        uint32_t drm_fd, gpu_id;
} KfdAcquireVm;

typedef struct KfdAvailableMemory {
        uint64_t available;
        uint32_t gpu_id, pad;
} KfdAvailableMemory;

typedef struct KfdXnackMode {
        int32_t xnack_enabled;
} KfdXnackMode;

#define KFD_ALLOC_USERPTR  (1U << 2)
#define KFD_ALLOC_DOORBELL (1U << 3)

typedef struct KfdAllocMemory {
        uint64_t va_addr, size, handle, mmap_offset;
        uint32_t gpu_id, flags;
} KfdAllocMemory;

typedef struct KfdMapMemory {
        uint64_t handle, device_ids_array_ptr;
        uint32_t n_devices, n_success;
} KfdMapMemory;

typedef struct KfdSetCuMask {
        uint32_t queue_id, num_cu_mask;
        uint64_t cu_mask_ptr;
} KfdSetCuMask;

typedef struct KfdWaveState {
        uint64_t ctl_stack_address;
        uint32_t ctl_stack_used_size, save_area_used_size, queue_id, pad;
} KfdWaveState;

#define KFD_EVENT_SIGNAL 0U
#define KFD_EVENT_DEBUG  5U

/* What mmap() on the device takes for the page of signal slots. */
#define KFD_MMAP_EVENTS (UINT64_C(2) << 62)

/* KfdHwException.reset_cause. */
#define KFD_RESET_HANG 0U
#define KFD_RESET_ECC  1U

/* KfdMemoryFault.error_type */
#define KFD_MEMORY_ERROR_ECC 1U

/* The head of a queue's save area, which the runtime writes. */
typedef struct KfdSaveAreaHeader {
        uint32_t control_stack_offset, control_stack_size, wave_state_offset, wave_state_size;
        uint32_t debug_offset, debug_size;
        uint64_t err_payload_addr; /* of 64 bits */
        uint32_t err_event_id, reserved;
} KfdSaveAreaHeader;

_Static_assert(sizeof(KfdSaveAreaHeader) == 40, "struct kfd_context_save_area_header");

/* Exceptions of queues; KFD_EXCEPTION_MASK() makes their bits. */
#define KFD_EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION    4
#define KFD_EC_QUEUE_PACKET_DISPATCH_DIM_INVALID 16

#define KFD_WAIT_TIMEOUT 1U
#define KFD_WAIT_FAIL    2U
