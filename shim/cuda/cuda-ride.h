/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Rides: short launches behind a tracked one, which are counted together
 *
 * To track a launch costs some 0.4 us, a tenth of what the driver takes for it: the gate's counts, the queue's lock,
 * the clock. So a tracked launch opens its queue for rides: the next launches, so many that they share a mark, and none
 * of a longer kind. Such a launch writes one word when it begins, and again when it was made. The next thread with the
 * lock of the queue gives all of them their numbers, and counts them at the gate, by xsched_queue_join(). That is the
 * one that got the last room, which also records the mark, and lets the next launches on.
 *
 * A queue with rides is never idle. The ride is closed before the last launch of a queue is reported complete, and that
 * fails while a launch is on a ride, or has no number yet: cuda_ride_close(). A launch on a ride looks at the verdict
 * only after it has got on, as a launch is counted first at the gate: either it sees the hold, or the service sees a
 * queue that is not drained. It does not look at the bound, which counts again for the next ride: what was let on
 * takes the device 0.8 ms at most (cuda-mark.c).
 *
 * Thread safety: cuda_ride_begin(), _end(), _stop() and _is_open() from any thread and from signal handlers; all others
 * under the queue's lock.
 */

#include "common/macro.h"

typedef struct CudaRide {
        /* From the lowest bit: how many more may begin, how many have ended and have no number, how many are between
         * the two (10 bits each), the device time of those that have ended and have no number (20 bits, nanoseconds), a
         * generation (13 bits), and whether it is open. The first three are CUDA_RIDE_MAX at most in all. */
        _Atomic uint64_t word;
        _Atomic uint64_t most_ns; /* the longest kind that rides */
        uint64_t waits_since_ns;  /* cuda_ride_give_up(); 0: not called */
} CudaRide;

#define CUDA_RIDE_MAX    UINT64_C(0x3FF) /* launches that may begin, are on the ride, or have no number */
#define CUDA_RIDE_MAX_NS UINT64_C(30000) /* longer kinds are tracked one by one */

#define CUDA_RIDE_ROOM       UINT64_C(1)
#define CUDA_RIDE_ENDED      (UINT64_C(1) << 10)
#define CUDA_RIDE_INSIDE     (UINT64_C(1) << 20)
#define CUDA_RIDE_NS         (UINT64_C(1) << 30)
#define CUDA_RIDE_GENERATION (UINT64_C(1) << 50)
#define CUDA_RIDE_OPEN       (UINT64_C(1) << 63)

static inline uint32_t cuda_ride_field(uint64_t word, uint64_t unit) {
        return (uint32_t) (word / unit & CUDA_RIDE_MAX);
}

#define CUDA_RIDE_GENERATIONS (UINT64_C(0x1FFF) * CUDA_RIDE_GENERATION)

static inline uint64_t cuda_ride_load(const CudaRide *r) {
        return __atomic_load_n((const uint64_t *) &r->word, __ATOMIC_RELAXED);
}

static inline bool cuda_ride_exchange(CudaRide *r, uint64_t *word, uint64_t next) {
        return __atomic_compare_exchange_n((uint64_t *) &r->word, word, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline bool cuda_ride_is_open(const CudaRide *r) {
        return cuda_ride_load(r) & CUDA_RIDE_OPEN;
}

/* Returns how many launches are on the ride, or have no number yet. */
static inline uint32_t cuda_ride_count(const CudaRide *r) {
        uint64_t word = cuda_ride_load(r);

        return cuda_ride_field(word, CUDA_RIDE_ENDED) + cuda_ride_field(word, CUDA_RIDE_INSIDE);
}

/* A launch of `ns` nanoseconds gets on. Returns false if it may not: it is too long, or the ride is full or closed.
 * `ret_ticket`: never 0. */
static inline bool cuda_ride_begin(CudaRide *r, uint64_t ns, uint64_t *ret_ticket) {
        uint64_t word = cuda_ride_load(r);

        if (ns == 0)
                return false;
        do /* the room that was found is of this time at least */
                if (!(word & CUDA_RIDE_OPEN) || cuda_ride_field(word, CUDA_RIDE_ROOM) == 0 ||
                                ns > __atomic_load_n((const uint64_t *) &r->most_ns, __ATOMIC_RELAXED))
                        return false;
        while (!cuda_ride_exchange(r, &word, word - CUDA_RIDE_ROOM + CUDA_RIDE_INSIDE));
        *ret_ticket = word;
        return true;
}

/* Returns whether there was no room for another launch behind this one. */
static inline bool cuda_ride_was_last(uint64_t ticket) {
        return cuda_ride_field(ticket, CUDA_RIDE_ROOM) == 1;
}

/* The launch was made, or it was not. After cuda_ride_reset() this does nothing. */
static inline void cuda_ride_end(CudaRide *r, uint64_t ticket, uint64_t ns, bool made) {
        uint64_t word = cuda_ride_load(r), more = made ? CUDA_RIDE_ENDED + ns * CUDA_RIDE_NS : 0;

        do
                if ((word ^ ticket) & CUDA_RIDE_GENERATIONS)
                        return;
        while (!cuda_ride_exchange(r, &word, word - CUDA_RIDE_INSIDE + more));
}

/* Lets `n` more launches of at most `most_ns` nanoseconds begin, which is CUDA_RIDE_MAX_NS at most. */
void cuda_ride_open(CudaRide *r, uint32_t n, uint64_t most_ns);

/* Lets no more launches begin, so that the next one is tracked by itself. */
void cuda_ride_stop(CudaRide *r);

/* Returns how many launches have ended since the last call, and their device time. */
uint32_t cuda_ride_take(CudaRide *r, uint64_t *ret_ns);

/* Returns false, and leaves the ride open, if a launch is on it or was not taken. */
bool cuda_ride_close(CudaRide *r);

/* To be called when a ride cannot be closed, and nothing else is left to wait for. Returns true, and closes the ride,
 * when that has been so for a second and no launch has ended: a signal's handler has jumped out of it in its first or
 * last moment, when there is no record of it (cuda-begun.h). */
bool cuda_ride_give_up(CudaRide *r, uint64_t now);

/* Closes the ride, whoever is on it, and forgets those. */
void cuda_ride_reset(CudaRide *r);
