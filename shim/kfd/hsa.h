/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The parts of hsa/hsa.h, hsa_ext_amd.h, amd_hsa_queue.h and amd_hsa_signal.h that we use: the build needs no HSA
 * runtime
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSA_SUCCESS 0
#define HSA_ERROR   0x1000

typedef struct HsaSignal {
        uint64_t handle;
} HsaSignal;

typedef struct HsaQueue {
        uint32_t type;
        uint32_t features;
        void *base_address;
        HsaSignal doorbell_signal;
        uint32_t size;
        uint32_t reserved1;
        uint64_t id;
} HsaQueue;

_Static_assert(offsetof(HsaQueue, doorbell_signal) == 16 && sizeof(HsaQueue) == 40, "hsa_queue_t");

/* amd_queue_t, which contains the indices whose addresses the kernel gets. The meaning of the members about scratch
 * memory depends on `caps`: see kfd_aql_reclaims(). */
typedef struct AmdQueue {
        HsaQueue hsa_queue;
        uint32_t caps; /* 0 before ROCm 6.1 */
        uint32_t reserved1[3];
        uint64_t write_index;
        uint32_t reserved2[16];
        uint64_t read_index;
        uint32_t reserved3[8];
        uint64_t scratch_size;
        uint32_t scratch_lane_size;
        uint32_t properties;
        uint64_t scratch_index; /* with AMD_QUEUE_CAPS_SW: the last packet that may use it */
        HsaSignal inactive_signal;
        uint64_t alt_scratch_index; /* with AMD_QUEUE_CAPS_SW, likewise */
        uint32_t reserved4[4];
        uint64_t alt_scratch_size; /* without AMD_QUEUE_CAPS_SW */
        uint32_t reserved5[3];
        uint32_t alt_scratch_lane_size;
        uint32_t reserved6[2];
} AmdQueue;

#define AMD_QUEUE_CAPS_CP (UINT32_C(1) << 0)
#define AMD_QUEUE_CAPS_SW (UINT32_C(1) << 1)

_Static_assert(offsetof(AmdQueue, caps) == 40 && offsetof(AmdQueue, write_index) == 56 &&
                                offsetof(AmdQueue, read_index) == 128 && offsetof(AmdQueue, scratch_size) == 168 &&
                                offsetof(AmdQueue, scratch_index) == 184 &&
                                offsetof(AmdQueue, inactive_signal) == 192 &&
                                offsetof(AmdQueue, alt_scratch_size) == 224 &&
                                offsetof(AmdQueue, alt_scratch_lane_size) == 244 && sizeof(AmdQueue) == 256,
                "amd_queue_t");

/* amd_signal_t, which a signal's handle points to. */
typedef struct AmdSignal {
        int64_t kind;
        uint64_t *hardware_doorbell;
        uint64_t event_mailbox;
        uint32_t event_id;
        uint32_t reserved1;
        uint64_t start_ts, end_ts;
        const AmdQueue *queue;
        uint64_t reserved2;
} AmdSignal;

#define AMD_SIGNAL_DOORBELL (-1)

_Static_assert(offsetof(AmdSignal, queue) == 48 && sizeof(AmdSignal) == 64, "amd_signal_t");

typedef bool HsaHandler(int64_t value, void *arg);
typedef void HsaFunction(void *arg);

/* The functions that the layer intercepts. */
#define HSA_FUNCTIONS(X)                                                                                               \
        HSA_STORES(X)                                                                                                  \
        X(hsa_amd_signal_async_handler)                                                                                \
        X(hsa_amd_async_function)                                                                                      \
        HSA_RESERVATIONS(X)                                                                                            \
        HSA_EXCHANGES(X)                                                                                               \
        HSA_INDEX_STORES(X)

/* "Silent" stores do not wake waiters of a signal. A doorbell has no waiters, so they count as the others. */
#define HSA_STORES(X)                                                                                                  \
        X(hsa_signal_store_relaxed)                                                                                    \
        X(hsa_signal_store_release)                                                                                    \
        X(hsa_signal_store_screlease)                                                                                  \
        X(hsa_signal_silent_store_relaxed)                                                                             \
        X(hsa_signal_silent_store_screlease)

/* The last three of each are old names. */
#define HSA_RESERVATIONS(X)                                                                                            \
        X(hsa_queue_add_write_index_scacq_screl)                                                                       \
        X(hsa_queue_add_write_index_scacquire)                                                                         \
        X(hsa_queue_add_write_index_relaxed)                                                                           \
        X(hsa_queue_add_write_index_screlease)                                                                         \
        X(hsa_queue_add_write_index_acq_rel)                                                                           \
        X(hsa_queue_add_write_index_acquire)                                                                           \
        X(hsa_queue_add_write_index_release)

#define HSA_EXCHANGES(X)                                                                                               \
        X(hsa_queue_cas_write_index_scacq_screl)                                                                       \
        X(hsa_queue_cas_write_index_scacquire)                                                                         \
        X(hsa_queue_cas_write_index_relaxed)                                                                           \
        X(hsa_queue_cas_write_index_screlease)                                                                         \
        X(hsa_queue_cas_write_index_acq_rel)                                                                           \
        X(hsa_queue_cas_write_index_acquire)                                                                           \
        X(hsa_queue_cas_write_index_release)

#define HSA_INDEX_STORES(X)                                                                                            \
        X(hsa_queue_store_write_index_relaxed)                                                                         \
        X(hsa_queue_store_write_index_screlease)                                                                       \
        X(hsa_queue_store_write_index_release)

int hsa_amd_signal_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg);
int hsa_amd_async_function(HsaFunction *function, void *arg);
#define DECLARE(name) void name(HsaSignal signal, int64_t value);
HSA_STORES(DECLARE)
#undef DECLARE
#define DECLARE(name) uint64_t name(const HsaQueue *queue, uint64_t n);
HSA_RESERVATIONS(DECLARE)
#undef DECLARE
#define DECLARE(name) uint64_t name(const HsaQueue *queue, uint64_t expected, uint64_t index);
HSA_EXCHANGES(DECLARE)
#undef DECLARE
#define DECLARE(name) void name(const HsaQueue *queue, uint64_t index);
HSA_INDEX_STORES(DECLARE)
#undef DECLARE
