/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Looks
 */

#include "shim/core/look.h"
#include "shim/core/client.h"

/* The control thread has a timer, or has been woken to set one. A thread that asks stores its request and then loads
 * this; the control thread stores this and then loads the requests of all queues, before it sleeps without a timer. So
 * one of the two sees the other. */
static _Atomic bool ticking;

_public_
void xsched_queue_look(XschedQueue *q) {
        if (!q->look || atomic_load_explicit(&q->look_wanted, memory_order_seq_cst))
                return;
        atomic_store_explicit(&q->look_wanted, true, memory_order_seq_cst);
        if (!atomic_load_explicit(&ticking, memory_order_seq_cst) &&
                        !atomic_exchange_explicit(&ticking, true, memory_order_seq_cst))
                client_kick();
}

/* look() may ask again. */
static unsigned look_at_all(Control *c) {
        unsigned n = 0;

        for (QueueState s = 0; s < _QUEUE_STATE_MAX; s++)
                for (XschedQueue *q = c->queues[s]; q; q = q->next) {
                        if (!atomic_load_explicit(&q->look_wanted, memory_order_relaxed))
                                continue;
                        atomic_store_explicit(&q->look_wanted, false, memory_order_seq_cst);
                        if (!queue_try_ref(q))
                                continue;
                        n++;
                        q->look(q, q->userdata);
                        xsched_queue_unref(q);
                }
        return n;
}

static bool anybody_asks(const Control *c) {
        for (QueueState s = 0; s < _QUEUE_STATE_MAX; s++)
                for (const XschedQueue *q = c->queues[s]; q; q = q->next)
                        if (atomic_load_explicit(&q->look_wanted, memory_order_seq_cst))
                                return true;
        return false;
}

void look_turn(Control *c) {
        if (!atomic_load_explicit(&ticking, memory_order_seq_cst))
                return;

        uint64_t now = now_ns();
        if (c->look_at_ns == 0)
                c->look_at_ns = now + LOOK_NS;
        if (now < c->look_at_ns)
                return;
        c->look_at_ns = now + LOOK_NS;
        if (look_at_all(c) > 0)
                return;

        atomic_store_explicit(&ticking, false, memory_order_seq_cst);
        if (anybody_asks(c))
                atomic_store_explicit(&ticking, true, memory_order_seq_cst);
        else
                c->look_at_ns = 0;
}

uint64_t look_next_ns(const Control *c) {
        return c->look_at_ns != 0 ? c->look_at_ns : NSEC_INFINITY;
}

void look_forget(void) {
        atomic_store_explicit(&ticking, false, memory_order_seq_cst);
}
