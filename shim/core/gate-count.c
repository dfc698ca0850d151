/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A gate's counters, and how they move. gate-count.h says how they are read.
 */

#include "shim/core/gate-count.h"

static struct { _Atomic uint32_t begun, ended; } moves;

uint32_t gate_count_moves(void) {
        return atomic_load_explicit(&moves.ended, memory_order_seq_cst);
}

bool gate_count_moved(uint32_t n) {
        atomic_thread_fence(memory_order_seq_cst);
        return atomic_load_explicit(&moves.begun, memory_order_seq_cst) != n;
}

void gate_count_move_begin(void) {
        atomic_fetch_add_explicit(&moves.begun, 1, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
}

void gate_count_move_end(void) {
        atomic_fetch_add_explicit(&moves.ended, 1, memory_order_seq_cst);
}

void gate_count_forget(void) {
        atomic_store_explicit(&moves.begun, 0, memory_order_relaxed);
        atomic_store_explicit(&moves.ended, 0, memory_order_relaxed);
}

void gate_carry_back(Gate *g, PageSlot *s) {
        gate_count_move_begin();
        uint64_t n = atomic_exchange_explicit(&s->submitted, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&g->private_slot.submitted, n, memory_order_relaxed);
        gate_count_move_end();
}

void gate_carry_all_back(Gate *g) {
        for (size_t i = 0; i < ELEMENTSOF(g->seats); i++) {
                PageSlot *s = atomic_load_explicit(&g->seats[i].slot, memory_order_acquire);
                if (s)
                        gate_carry_back(g, s);
        }
}

void gate_read(const Gate *g, GateCounters *counters) {
        counters->launches += atomic_load_explicit(&g->private_slot.submitted, memory_order_relaxed);
        for (size_t i = 0; i < ELEMENTSOF(g->seats); i++) {
                const PageSlot *s = atomic_load_explicit(&g->seats[i].slot, memory_order_acquire);
                if (s)
                        counters->launches += atomic_load_explicit(&s->submitted, memory_order_relaxed);
        }
        counters->tracked += atomic_load_explicit(&g->tracked, memory_order_relaxed);
        counters->waited += atomic_load_explicit(&g->waited, memory_order_relaxed);
        counters->waited_ns += atomic_load_explicit(&g->waited_ns, memory_order_relaxed);
        counters->expired += atomic_load_explicit(&g->expired, memory_order_relaxed);
}

void gate_take(Gate *g, GateCounters *counters) {
        gate_carry_all_back(g);
        counters->launches += atomic_exchange_explicit(&g->private_slot.submitted, 0, memory_order_relaxed);
        counters->tracked += atomic_exchange_explicit(&g->tracked, 0, memory_order_relaxed);
        counters->waited += atomic_exchange_explicit(&g->waited, 0, memory_order_relaxed);
        counters->waited_ns += atomic_exchange_explicit(&g->waited_ns, 0, memory_order_relaxed);
        counters->expired += atomic_exchange_explicit(&g->expired, 0, memory_order_relaxed);
}
