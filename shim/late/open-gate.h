/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xsched_queue_begin() at an open gate, and a look at the verdict, without a call
 *
 * The former writes nothing but the number of launches that passed: a signal's handler may jump out of it.
 *
 * Thread safety: open_gate_passes() and open_gate_may_be_held() from any thread and from signal handlers, also while
 * open_gate_set() and open_gate_clear() are called. These two: under a lock.
 */

#include "common/page.h"
#include "include/xsched/words.h"

typedef struct OpenGate {
        void *const *slot; /* NULL: unknown */
        void *const *local;
} OpenGate;

static inline void open_gate_set(OpenGate *g, XschedQueue *q) {
        XschedWords words = {.size = sizeof(words)};

        if (xsched_queue_words(q, &words) < 0)
                return;
        __atomic_store_n(&g->local, words.local_gate, __ATOMIC_RELAXED);
        __atomic_store_n(&g->slot, words.slot, __ATOMIC_RELEASE);
}

/* `local` can still be read. */
static inline void open_gate_clear(OpenGate *g) {
        __atomic_store_n(&g->slot, NULL, __ATOMIC_RELAXED);
}

/* Returns true: the launch has passed; false: it has to pass by xsched_queue_begin(). */
static inline bool open_gate_passes(const OpenGate *g) {
        void *const *slot = __atomic_load_n(&g->slot, __ATOMIC_ACQUIRE);

        if (unlikely(!slot) ||
                        unlikely(__atomic_load_n(__atomic_load_n(&g->local, __ATOMIC_RELAXED), __ATOMIC_RELAXED)))
                return false;
        return page_slot_pass(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
}

/* Returns whether a launch may have to wait. */
static inline bool open_gate_may_be_held(const OpenGate *g) {
        void *const *slot = __atomic_load_n(&g->slot, __ATOMIC_ACQUIRE);

        if (unlikely(!slot) ||
                        unlikely(__atomic_load_n(__atomic_load_n(&g->local, __ATOMIC_RELAXED), __ATOMIC_RELAXED)))
                return true;
        const PageSlot *s = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        return unlikely(atomic_load_explicit(&s->verdict, memory_order_seq_cst) & PAGE_VERDICT_HOLD);
}
