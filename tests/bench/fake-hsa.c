/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An HSA runtime that does nothing: libhsa-runtime64.so.1 for bench-doorbell, so that nothing but the layer is counted
 *
 * The queue lies on the ring that the "agent" is the address of: the caller has made it with the kernel's driver
 * before.
 */

#include <stdint.h>
#include <stdlib.h>

#include "common/macro.h"

typedef struct Queue {
        uint32_t type, features;
        uint64_t base_address, doorbell_signal;
        uint32_t size, reserved;
        uint64_t id;
} Queue;

int hsa_queue_create(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, Queue **ret);
void hsa_signal_store_screlease(uint64_t signal, int64_t value);
void hsa_signal_store_relaxed(uint64_t signal, int64_t value);
void hsa_signal_store_release(uint64_t signal, int64_t value);

_public_
int hsa_queue_create(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, Queue **ret) {
        Queue *q = calloc(1, sizeof(*q));

        if (!q)
                return 0x1000;
        q->base_address = agent;
        q->doorbell_signal = (uintptr_t) q;
        q->size = size;
        *ret = q;
        return 0;
}

_public_
void hsa_signal_store_screlease(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}

_public_
void hsa_signal_store_relaxed(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}

_public_
void hsa_signal_store_release(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}
