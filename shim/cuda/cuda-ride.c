/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rides
 */

#include <stdatomic.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-ride.h"

#define ROOM       UINT64_C(1)
#define ENDED      (UINT64_C(1) << 16)
#define INSIDE     (UINT64_C(1) << 32)
#define GENERATION (UINT64_C(1) << 48)
#define FIELD      UINT64_C(0xFFFF)

#define GIVE_UP_NS (1 * NSEC_PER_SEC)

static uint32_t field(uint64_t word, uint64_t unit) {
        return (uint32_t) (word / unit & FIELD);
}

/* Without the bit of an open ride. */
static uint32_t generation_of(uint64_t word) {
        return (uint32_t) (word / GENERATION & 0x7FFF);
}

bool cuda_ride_begin(CudaRide *r, uint64_t ns, uint32_t *ret_generation, bool *ret_last) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        if (ns == 0 || ns > atomic_load_explicit(&r->most_ns, memory_order_relaxed))
                return false;
        do
                if (!(word & CUDA_RIDE_OPEN) || field(word, ROOM) == 0 || field(word, INSIDE) == CUDA_RIDE_MAX)
                        return false;
        while (!atomic_compare_exchange_weak_explicit(
                        &r->word, &word, word - ROOM + INSIDE, memory_order_seq_cst, memory_order_relaxed));
        *ret_generation = generation_of(word);
        *ret_last = field(word, ROOM) == 1;
        return true;
}

void cuda_ride_end(CudaRide *r, uint32_t generation, uint64_t ns, bool made) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        do
                if (generation_of(word) != generation)
                        return;
        while (!atomic_compare_exchange_weak_explicit(&r->word, &word, word - INSIDE + (made ? ENDED : 0),
                        memory_order_seq_cst, memory_order_relaxed));
        if (made)
                atomic_fetch_add_explicit(&r->ended_ns, ns, memory_order_relaxed);
}

void cuda_ride_open(CudaRide *r, uint32_t n, uint64_t most_ns) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        /* One that ends between the two stores is no longer than the old time allows, and had room. */
        atomic_store_explicit(&r->most_ns, most_ns, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&r->word, &word,
                        (word & ~FIELD) | MIN(n, CUDA_RIDE_MAX) | CUDA_RIDE_OPEN, memory_order_seq_cst,
                        memory_order_relaxed))
                ;
}

/* The time of a launch that has ended just now may come with the next ones. */
uint32_t cuda_ride_take(CudaRide *r, uint64_t *ret_ns) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        do
                if (field(word, ENDED) == 0)
                        return 0;
        while (!atomic_compare_exchange_weak_explicit(
                        &r->word, &word, word & ~(FIELD * ENDED), memory_order_seq_cst, memory_order_relaxed));
        r->waits_since_ns = 0;
        *ret_ns = atomic_exchange_explicit(&r->ended_ns, 0, memory_order_relaxed);
        return field(word, ENDED);
}

bool cuda_ride_close(CudaRide *r) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        do
                if (word & (FIELD * INSIDE | FIELD * ENDED))
                        return false;
        while (!atomic_compare_exchange_weak_explicit(
                        &r->word, &word, word & ~(CUDA_RIDE_OPEN | FIELD), memory_order_seq_cst, memory_order_relaxed));
        r->waits_since_ns = 0;
        return true;
}

bool cuda_ride_give_up(CudaRide *r, uint64_t now) {
        r->waits_since_ns = r->waits_since_ns ?: now;
        if (now - r->waits_since_ns < GIVE_UP_NS)
                return false;
        cuda_ride_reset(r);
        return true;
}

void cuda_ride_reset(CudaRide *r) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

        while (!atomic_compare_exchange_weak_explicit(&r->word, &word,
                        (uint64_t) ((generation_of(word) + 1) & 0x7FFF) * GENERATION, memory_order_seq_cst,
                        memory_order_relaxed))
                ;
        atomic_store_explicit(&r->ended_ns, 0, memory_order_relaxed);
        r->waits_since_ns = 0;
}
