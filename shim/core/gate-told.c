/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the service is told by a word of the slot
 */

#include "shim/core/gate-told.h"

#include "common/time-util.h"

void gate_set_flying(Gate *g, uint64_t ns, uint64_t since_ns) {
        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        atomic_store_explicit(&s->flying_since_ns, since_ns, memory_order_relaxed);
        atomic_store_explicit(&s->flying_ns, ns, memory_order_relaxed);
}

void gate_started(Gate *g, uint64_t since_ns) {
        uint64_t since = atomic_load_explicit(&g->busy_since_ns, memory_order_relaxed);

        /* Too late if the last launch has completed meanwhile, or another launch is the first. */
        if (since == 0 || since_ns <= since || since_ns > now_ns() ||
                        !atomic_compare_exchange_strong_explicit(&g->busy_since_ns, &since, since_ns,
                                        memory_order_relaxed, memory_order_relaxed))
                return;
        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        atomic_store_explicit(&s->launched_ns, since_ns, memory_order_relaxed);
}

/* gate_attach() stores the slot first and then reads `hooked`, so one of the two threads writes the value to the new
 * slot. */
void gate_set_hooked(Gate *g, uint32_t hooked) {
        atomic_store_explicit(&g->hooked, hooked, memory_order_seq_cst);
        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_seq_cst);
        atomic_store_explicit(&s->hooked, hooked, memory_order_seq_cst);
}
