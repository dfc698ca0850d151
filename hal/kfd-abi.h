/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * KFD's binary interface, as far as xsched uses it
 *
 * Debian 12's <linux/kfd_ioctl.h> is 1.11 and knows neither DBG_TRAP nor RUNTIME_ENABLE, and the header of the build
 * says nothing about the kernel at run time. So everything that xsched calls, intercepts or simulates is declared here,
 * once, under our own names, with the sizes asserted. The tests compare every number with the header of the newest
 * kernel at hand, and with a real driver in a virtual machine.
 *
 * KFD looks at an ioctl's number only, and copies as many bytes as the caller's size field says (never more than its
 * own structure; missing bytes read as zero). So structures grow without a new number: CREATE_QUEUE is 88 bytes up to
 * 1.16 and 96 from 1.17. Code that intercepts must therefore compare _IOC_NR() and not the whole request: see
 * kfd_ioctl_nr().
 *
 * Source of every constant: the kernel's include/uapi/linux/kfd_ioctl.h, versions 1.11 (6.1) and 1.17 (6.12).
 */

#include <linux/ioctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KFD_DEVICE_PATH  "/dev/kfd"
#define KFD_IOCTL_BASE   'K'
#define KFD_API_MAJOR    1U
#define KFD_API_DBG_TRAP 13U /* the minor version that brought DBG_TRAP and RUNTIME_ENABLE */
#define KFD_API_CRIU     7U  /* the minor version that brought CRIU_OP */

typedef enum KfdNr {
        KFD_NR_GET_VERSION = 0x01,
        KFD_NR_CREATE_QUEUE = 0x02,
        KFD_NR_DESTROY_QUEUE = 0x03,
        KFD_NR_SET_MEMORY_POLICY = 0x04,
        KFD_NR_GET_CLOCK_COUNTERS = 0x05,
        KFD_NR_GET_PROCESS_APERTURES = 0x06,
        KFD_NR_UPDATE_QUEUE = 0x07,
        KFD_NR_CREATE_EVENT = 0x08,
        KFD_NR_DESTROY_EVENT = 0x09,
        KFD_NR_SET_EVENT = 0x0a,
        KFD_NR_RESET_EVENT = 0x0b,
        KFD_NR_WAIT_EVENTS = 0x0c,
        KFD_NR_SET_SCRATCH_BACKING_VA = 0x11,
        KFD_NR_GET_TILE_CONFIG = 0x12,
        KFD_NR_SET_TRAP_HANDLER = 0x13,
        KFD_NR_GET_PROCESS_APERTURES_NEW = 0x14,
        KFD_NR_ACQUIRE_VM = 0x15,
        KFD_NR_ALLOC_MEMORY = 0x16,
        KFD_NR_FREE_MEMORY = 0x17,
        KFD_NR_MAP_MEMORY = 0x18,
        KFD_NR_UNMAP_MEMORY = 0x19,
        KFD_NR_SET_CU_MASK = 0x1a,
        KFD_NR_GET_QUEUE_WAVE_STATE = 0x1b,
        KFD_NR_SMI_EVENTS = 0x1f,
        KFD_NR_SVM = 0x20,
        KFD_NR_SET_XNACK_MODE = 0x21,
        KFD_NR_CRIU_OP = 0x22,
        KFD_NR_AVAILABLE_MEMORY = 0x23,
        KFD_NR_EXPORT_DMABUF = 0x24,
        KFD_NR_RUNTIME_ENABLE = 0x25,
        KFD_NR_DBG_TRAP = 0x26,
        _KFD_NR_END = 0x27,
} KfdNr;

/* Returns the number of a KFD request, or -1 when the request is not one of KFD. */
static inline int kfd_ioctl_nr(unsigned long request) {
        return _IOC_TYPE(request) == KFD_IOCTL_BASE ? (int) _IOC_NR(request) : -1;
}

typedef struct KfdVersion {
        uint32_t major;
        uint32_t minor;
} KfdVersion;

/* Queues */

typedef enum KfdQueueType {
        KFD_QUEUE_COMPUTE = 0,
        KFD_QUEUE_SDMA = 1,
        KFD_QUEUE_COMPUTE_AQL = 2,
        KFD_QUEUE_SDMA_XGMI = 3,
        KFD_QUEUE_SDMA_BY_ENGINE = 4, /* 1.17 */
} KfdQueueType;

static inline bool kfd_queue_type_is_compute(uint32_t type) {
        return type == KFD_QUEUE_COMPUTE || type == KFD_QUEUE_COMPUTE_AQL;
}

#define KFD_PERCENTAGE_MAX 100U /* 0 unmaps the queue; bits above the low 8 carry a target XCC from 1.14 */
#define KFD_PRIORITY_MAX   15U
#define KFD_RING_SIZE_MIN  1024U

typedef struct KfdCreateQueue {
        uint64_t ring_base_address;
        uint64_t write_pointer_address;
        uint64_t read_pointer_address;
        uint64_t doorbell_offset; /* from KFD; an mmap offset */
        uint32_t ring_size;       /* bytes */
        uint32_t gpu_id;
        uint32_t queue_type;
        uint32_t queue_percentage;
        uint32_t queue_priority;
        uint32_t queue_id; /* from KFD */
        uint64_t eop_buffer_address;
        uint64_t eop_buffer_size;
        uint64_t ctx_save_restore_address;
        uint32_t ctx_save_restore_size;
        uint32_t ctl_stack_size;
        uint32_t sdma_engine_id; /* from here on: 1.17 */
        uint32_t pad;
} KfdCreateQueue;

#define KFD_CREATE_QUEUE_SIZE_1_11 offsetof(KfdCreateQueue, sdma_engine_id)

typedef struct KfdDestroyQueue {
        uint32_t queue_id;
        uint32_t pad;
} KfdDestroyQueue;

typedef struct KfdUpdateQueue {
        uint64_t ring_base_address; /* both exactly as at CREATE_QUEUE, else EFAULT */
        uint32_t queue_id;
        uint32_t ring_size;
        uint32_t queue_percentage;
        uint32_t queue_priority;
} KfdUpdateQueue;

/* For AQL queues the write and read pointers are members of amd_queue_t (hsa/amd_hsa_queue.h), 64-bit packet
 * indices. */
#define KFD_AQL_WRITE_INDEX_OFFSET 56U
#define KFD_AQL_READ_INDEX_OFFSET  128U
#define KFD_AQL_PACKET_SIZE        64U

/* CRIU_OP: pause and unpause of a whole process */

typedef enum KfdCriuOp {
        KFD_CRIU_PROCESS_INFO, /* pauses: evicts all queues of the process */
        KFD_CRIU_CHECKPOINT,
        KFD_CRIU_UNPAUSE,
        KFD_CRIU_RESTORE,
        KFD_CRIU_RESUME,
} KfdCriuOp;

typedef struct KfdCriu {
        uint64_t devices;
        uint64_t bos;
        uint64_t priv_data;
        uint64_t priv_data_size;
        uint32_t num_devices;
        uint32_t num_bos;
        uint32_t num_objects;
        uint32_t pid;
        uint32_t op; /* KfdCriuOp */
} KfdCriu;

/* RUNTIME_ENABLE and DBG_TRAP, 1.13 */

typedef struct KfdRuntimeEnable {
        uint64_t r_debug;
        uint32_t mode_mask; /* KFD_RUNTIME_MODE_* */
        uint32_t capabilities_mask;
} KfdRuntimeEnable;

#define KFD_RUNTIME_MODE_ENABLE    1U
#define KFD_RUNTIME_MODE_TTMP_SAVE 2U

typedef struct KfdRuntimeInfo {
        uint64_t r_debug;
        uint32_t runtime_state;
        uint32_t ttmp_setup;
} KfdRuntimeInfo;

typedef enum KfdDbgTrapOp {
        KFD_DBG_TRAP_ENABLE = 0,
        KFD_DBG_TRAP_DISABLE = 1,
        KFD_DBG_TRAP_SEND_RUNTIME_EVENT = 2,
        KFD_DBG_TRAP_SET_EXCEPTIONS_ENABLED = 3,
        KFD_DBG_TRAP_SUSPEND_QUEUES = 6,
        KFD_DBG_TRAP_RESUME_QUEUES = 7,
        KFD_DBG_TRAP_QUERY_DEBUG_EVENT = 11,
        KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT = 13,
        KFD_DBG_TRAP_GET_DEVICE_SNAPSHOT = 14,
} KfdDbgTrapOp;

#define KFD_EXCEPTION_QUEUE_NEW       31U
#define KFD_EXCEPTION_PROCESS_RUNTIME 48U
#define KFD_EXCEPTION_MASK(code)      (UINT64_C(1) << ((code) -1))

/* Bits that suspend and resume set in the caller's array in the id of a queue that they did not touch. */
#define KFD_DBG_QUEUE_ERROR   (UINT32_C(1) << 30) /* hardware failure */
#define KFD_DBG_QUEUE_INVALID (UINT32_C(1) << 31) /* no such queue, or new, or being destroyed */

typedef struct KfdDbgTrap {
        uint32_t pid; /* the debugged process */
        uint32_t op;  /* KfdDbgTrapOp */
        union {
                struct {
                        uint64_t exception_mask;
                        uint64_t rinfo_ptr;
                        uint32_t rinfo_size;
                        uint32_t dbg_fd;
                } enable;
                struct {
                        uint64_t exception_mask;
                        uint32_t gpu_id;
                        uint32_t queue_id;
                } send_runtime_event;
                struct {
                        uint64_t exception_mask;
                        uint64_t queue_array_ptr; /* uint32_t queue ids, in and out */
                        uint32_t num_queues;
                        uint32_t grace_period; /* units of 1,000 GPU clock cycles */
                } suspend_queues;
                struct {
                        uint64_t queue_array_ptr; /* NULL and 0 queues: all */
                        uint32_t num_queues;
                        uint32_t pad;
                } resume_queues;
                struct {
                        uint64_t exception_mask; /* raised exceptions to clear */
                        uint64_t snapshot_buf_ptr;
                        uint32_t num_queues;
                        uint32_t entry_size;
                } queue_snapshot;
                uint64_t _size[3];
        };
} KfdDbgTrap;

typedef struct KfdQueueSnapshot {
        uint64_t exception_status;
        uint64_t ring_base_address;
        uint64_t write_pointer_address;
        uint64_t read_pointer_address;
        uint64_t ctx_save_restore_address;
        uint32_t queue_id;
        uint32_t gpu_id;
        uint32_t ring_size;
        uint32_t queue_type;
        uint32_t ctx_save_restore_area_size;
        uint32_t reserved;
} KfdQueueSnapshot;

/* --- events --- */

/* What the kernel tells of by itself: a GPU has been reset, or has met an address that is not mapped. */
#define KFD_EVENT_HW_EXCEPTION 3U
#define KFD_EVENT_MEMORY       8U

typedef struct KfdCreateEvent {
        uint64_t event_page_offset;
        uint32_t event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index;
} KfdCreateEvent;

/* DESTROY_EVENT, SET_EVENT and RESET_EVENT. */
typedef struct KfdEventId {
        uint32_t event_id, pad;
} KfdEventId;

typedef struct KfdMemoryFault {
        uint32_t not_present, read_only, no_execute, imprecise;
        uint64_t address;
        uint32_t gpu_id, error_type;
} KfdMemoryFault;

typedef struct KfdHwException {
        uint32_t reset_type, reset_cause, memory_lost, gpu_id;
} KfdHwException;

typedef struct KfdEventData {
        union {
                KfdMemoryFault memory;
                KfdHwException hw;
                uint64_t last_event_age; /* of a signal; 0: do not care */
        };
        uint64_t ext;
        uint32_t event_id, pad;
} KfdEventData;

_Static_assert(sizeof(KfdEventData) == 48 && offsetof(KfdEventData, memory.gpu_id) == 24, "struct kfd_event_data");

typedef struct KfdWaitEvents {
        uint64_t events_ptr;
        uint32_t num_events, wait_for_all, timeout, wait_result; /* milliseconds; UINT32_MAX: for ever */
} KfdWaitEvents;

#define KFD_WAIT_COMPLETE 0U

#define KFD_IOC_GET_VERSION    _IOR(KFD_IOCTL_BASE, KFD_NR_GET_VERSION, KfdVersion)
#define KFD_IOC_CREATE_QUEUE   _IOWR(KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, KfdCreateQueue)
#define KFD_IOC_DESTROY_QUEUE  _IOWR(KFD_IOCTL_BASE, KFD_NR_DESTROY_QUEUE, KfdDestroyQueue)
#define KFD_IOC_UPDATE_QUEUE   _IOW(KFD_IOCTL_BASE, KFD_NR_UPDATE_QUEUE, KfdUpdateQueue)
#define KFD_IOC_CREATE_EVENT   _IOWR(KFD_IOCTL_BASE, KFD_NR_CREATE_EVENT, KfdCreateEvent)
#define KFD_IOC_DESTROY_EVENT  _IOW(KFD_IOCTL_BASE, KFD_NR_DESTROY_EVENT, KfdEventId)
#define KFD_IOC_WAIT_EVENTS    _IOWR(KFD_IOCTL_BASE, KFD_NR_WAIT_EVENTS, KfdWaitEvents)
#define KFD_IOC_CRIU_OP        _IOWR(KFD_IOCTL_BASE, KFD_NR_CRIU_OP, KfdCriu)
#define KFD_IOC_RUNTIME_ENABLE _IOWR(KFD_IOCTL_BASE, KFD_NR_RUNTIME_ENABLE, KfdRuntimeEnable)
#define KFD_IOC_DBG_TRAP       _IOWR(KFD_IOCTL_BASE, KFD_NR_DBG_TRAP, KfdDbgTrap)

_Static_assert(sizeof(KfdVersion) == 8, "KfdVersion");
_Static_assert(sizeof(KfdCreateQueue) == 96, "KfdCreateQueue, 1.17");
_Static_assert(KFD_CREATE_QUEUE_SIZE_1_11 == 88, "KfdCreateQueue, 1.11");
_Static_assert(sizeof(KfdDestroyQueue) == 8, "KfdDestroyQueue");
_Static_assert(sizeof(KfdUpdateQueue) == 24, "KfdUpdateQueue");
_Static_assert(sizeof(KfdCriu) == 56, "KfdCriu");
_Static_assert(sizeof(KfdRuntimeEnable) == 16, "KfdRuntimeEnable");
_Static_assert(sizeof(KfdRuntimeInfo) == 16, "KfdRuntimeInfo");
_Static_assert(sizeof(KfdDbgTrap) == 32, "KfdDbgTrap");
_Static_assert(sizeof(KfdQueueSnapshot) == 64, "KfdQueueSnapshot");
