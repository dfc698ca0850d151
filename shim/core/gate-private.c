/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A gate without a slot in a page
 */

#include "shim/core/gate-private.h"

/* In a private slot, in the place of UNTRACKED: launches may be outstanding, and the next one does not take the short
 * way. */
#define PRIVATE_LAUNCHED UINT32_C(1)

static void (*_Atomic start_control)(void);

void gate_set_start(void (*start)(void)) {
        atomic_store_explicit(&start_control, start, memory_order_seq_cst);
}

void gate_look_again(Gate *g) {
        PageSlot *s = &g->private_slot;

        if (!(atomic_load_explicit(&s->outstanding, memory_order_seq_cst) & PAGE_OUTSTANDING_UNTRACKED))
                return;
        /* Never 0 in between: gate_attach() would take the queue for an idle one. */
        atomic_fetch_or_explicit(&s->outstanding, PRIVATE_LAUNCHED, memory_order_seq_cst);
        atomic_fetch_and_explicit(&s->outstanding, ~PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst);
}

bool gate_start(void) {
        void (*start)(void) = atomic_load_explicit(&start_control, memory_order_seq_cst);

        if (likely(!start))
                return false;
        start();
        return true;
}

/* Sets the bit first, and then looks whether there is a control thread; who finds none stores that first, and then has
 * all gates look again. */
static void gate_mark_private(Gate *g) {
        PageSlot *s = &g->private_slot;

        if (unlikely(atomic_load_explicit(&start_control, memory_order_seq_cst) != NULL)) {
                atomic_fetch_or_explicit(&s->outstanding, PRIVATE_LAUNCHED, memory_order_seq_cst);
                return;
        }
        atomic_fetch_or_explicit(&s->outstanding, PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst);
        if (unlikely(atomic_load_explicit(&start_control, memory_order_seq_cst) != NULL))
                gate_look_again(g);
}

bool gate_begin_private(Gate *g) {
        PageSlot *s = &g->private_slot;

        gate_mark_private(g);
        if (atomic_load_explicit(&g->seat, memory_order_seq_cst))
                return false;
        atomic_fetch_add_explicit(&s->submitted, 1, memory_order_relaxed);
        return true;
}
