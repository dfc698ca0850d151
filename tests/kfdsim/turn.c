/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The turn: which process executes on a GPU
 *
 * A holder that has used its quantum hands the turn to the next process that wants it, and one with nothing to do gives
 * it back. A process that wants the turn, and sees the holder keep it for several quanta, takes it: such a holder is
 * dead, or stopped by a signal. It does not count as wanting the turn until it says so again. So the death of no
 * process stops a GPU.
 */

#include <linux/futex.h>
#include <sys/syscall.h>

#include "sim.h"

#define TAKE_QUANTA 4U

void sim_gpu_notify(SimGpu *g) {
        atomic_fetch_add(&g->event, 1);
        (void) syscall(SYS_futex, &g->event, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void sim_gpu_wait(SimGpu *g, uint32_t seen, uint64_t until_ns) {
        struct timespec ts = ns_to_timespec(until_ns);

        (void) syscall(SYS_futex, &g->event, FUTEX_WAIT_BITSET, seen, until_ns == NSEC_INFINITY ? NULL : &ts, NULL,
                        FUTEX_BITSET_MATCH_ANY);
}

void sim_turn_want(SimGpu *g, uint32_t self, bool wants) {
        _Atomic uint64_t *word = g->wants + (self - 1) / 64;
        uint64_t bit = UINT64_C(1) << (self - 1) % 64;

        if (wants == !!(atomic_load(word) & bit))
                return;
        if (!wants) {
                atomic_fetch_and(word, ~bit);
                return;
        }
        atomic_fetch_or(word, bit);
        if (atomic_load(&g->holder) != self)
                sim_gpu_notify(g); /* from now on the holder's quantum counts */
}

/* The next process after `self` that wants the turn, in the order of their numbers; `self` comes last. */
static uint32_t turn_next(const SimGpu *g, uint32_t self) {
        for (uint32_t i = 0; i < SIM_PROCESSES_MAX; i++) {
                uint32_t k = (self + i) % SIM_PROCESSES_MAX;
                if (atomic_load(g->wants + k / 64) & UINT64_C(1) << k % 64)
                        return k + 1;
        }
        return SIM_NO_PROCESS;
}

bool sim_turn_is_wanted(const SimGpu *g, uint32_t self) {
        uint32_t next = turn_next(g, self);

        return next != SIM_NO_PROCESS && next != self;
}

void sim_turn_pass(SimGpu *g, uint32_t self) {
        uint32_t next = turn_next(g, self), expected = self;

        if (next == self)
                return;
        if (atomic_load(&g->holder) == self)
                atomic_store(&g->turn_since_ns, now_ns());
        if (atomic_compare_exchange_strong(&g->holder, &expected, next))
                sim_gpu_notify(g);
}

bool sim_turn_take(SimGpu *g, uint32_t self, uint64_t max_ns) {
        uint32_t seen = atomic_load(&g->event), holder = atomic_load(&g->holder);
        uint64_t since = atomic_load(&g->turn_since_ns), now = now_ns(),
                 stale = since + TAKE_QUANTA * sim_world()->options.quantum_ns;

        if (holder == self)
                return true;
        if (holder == SIM_NO_PROCESS || now >= stale) {
                uint32_t expected = holder;
                if (!atomic_compare_exchange_strong(&g->holder, &expected, self))
                        return false;
                if (holder != SIM_NO_PROCESS)
                        sim_turn_want(g, holder, false);
                atomic_store(&g->turn_since_ns, now);
                sim_gpu_notify(g);
                return true;
        }
        sim_gpu_wait(g, seen, MIN(stale, now + max_ns));
        return false;
}

bool sim_turn_is_over(const SimGpu *g, uint32_t self) {
        return atomic_load(&g->holder) != self ||
                        (now_ns() >= atomic_load(&g->turn_since_ns) + sim_world()->options.quantum_ns &&
                                        sim_turn_is_wanted(g, self));
}
