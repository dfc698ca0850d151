/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rides
 */

#include <stdatomic.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-ride.h"

#define NS_MAX     UINT64_C(0xFFFFF)
#define GIVE_UP_NS (1 * NSEC_PER_SEC)

static uint64_t ended_ns(uint64_t word) {
        return word / CUDA_RIDE_NS & NS_MAX;
}

/* So many that no field overflows, whatever they do. Those that are inside may be of longer kinds, which an earlier
 * call of cuda_ride_open() let on. */
static uint64_t room_for(uint64_t word, uint32_t n, uint64_t most_ns) {
        uint64_t inside = cuda_ride_field(word, CUDA_RIDE_INSIDE);
        uint64_t all = CUDA_RIDE_MAX - inside - cuda_ride_field(word, CUDA_RIDE_ENDED);
        uint64_t left_ns = ns_sub(NS_MAX - ended_ns(word), inside * CUDA_RIDE_MAX_NS);
        uint64_t in_time = most_ns > 0 ? left_ns / most_ns : all;

        all = MIN(all, in_time);
        return MIN(all, n);
}

void cuda_ride_open(CudaRide *r, uint32_t n, uint64_t most_ns) {
        uint64_t word = cuda_ride_load(r), before = atomic_load_explicit(&r->most_ns, memory_order_relaxed), next;

        do
                next = (word & ~CUDA_RIDE_MAX) | room_for(word, n, MAX(before, most_ns)) | CUDA_RIDE_OPEN;
        while (!cuda_ride_exchange(r, &word, next));
        /* Not before: the old room may be too large for a longer kind. */
        atomic_store_explicit(&r->most_ns, most_ns, memory_order_release);
}

void cuda_ride_stop(CudaRide *r) {
        uint64_t word = cuda_ride_load(r);

        while (!cuda_ride_exchange(r, &word, word & ~CUDA_RIDE_MAX))
                ;
}

uint32_t cuda_ride_take(CudaRide *r, uint64_t *ret_ns) {
        uint64_t word = cuda_ride_load(r);

        do
                if (cuda_ride_field(word, CUDA_RIDE_ENDED) == 0)
                        return 0;
        while (!cuda_ride_exchange(r, &word, word & ~(CUDA_RIDE_MAX * CUDA_RIDE_ENDED | NS_MAX * CUDA_RIDE_NS)));
        r->waits_since_ns = 0;
        *ret_ns = ended_ns(word);
        return cuda_ride_field(word, CUDA_RIDE_ENDED);
}

bool cuda_ride_close(CudaRide *r) {
        uint64_t word = cuda_ride_load(r);

        do
                if (word & (CUDA_RIDE_MAX * CUDA_RIDE_INSIDE | CUDA_RIDE_MAX * CUDA_RIDE_ENDED))
                        return false;
        while (!cuda_ride_exchange(r, &word, word & ~(CUDA_RIDE_OPEN | CUDA_RIDE_MAX)));
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
        uint64_t word = cuda_ride_load(r);

        while (!cuda_ride_exchange(r, &word, (word + CUDA_RIDE_GENERATION) & CUDA_RIDE_GENERATIONS))
                ;
        r->waits_since_ns = 0;
}
