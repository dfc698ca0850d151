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

/* When the earliest look is due that cannot wait for the timer; 0: none. */
static _Atomic uint64_t early_ns;

/* This thread calls look(): it needs no kick to see a request. */
static __thread bool is_looking __attribute__((tls_model("initial-exec")));

_public_
void xsched_queue_look(XschedQueue *q) {
        if (!q->look || atomic_load_explicit(&q->look_wanted, memory_order_seq_cst))
                return;
        atomic_store_explicit(&q->look_wanted, true, memory_order_seq_cst);
        if (!atomic_load_explicit(&ticking, memory_order_seq_cst) &&
                        !atomic_exchange_explicit(&ticking, true, memory_order_seq_cst))
                client_kick();
}

static bool make_earlier(uint64_t at) {
        uint64_t old = atomic_load_explicit(&early_ns, memory_order_relaxed);

        do
                if (old != 0 && old <= at)
                        return false;
        while (!atomic_compare_exchange_weak_explicit(&early_ns, &old, at, memory_order_seq_cst, memory_order_relaxed));
        return true;
}

_public_
void xsched_queue_look_in(XschedQueue *q, uint64_t ns) {
        if (!q->look)
                return;
        atomic_store_explicit(&q->look_wanted, true, memory_order_seq_cst);
        atomic_store_explicit(&ticking, true, memory_order_seq_cst);
        if (make_earlier(now_ns() + ns) && !is_looking)
                client_kick();
}

/* look() may ask again. */
static unsigned look_at_all(Control *c) {
        unsigned n = 0;

        is_looking = true;
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
        is_looking = false;
        return n;
}

static bool anybody_asks(const Control *c) {
        for (QueueState s = 0; s < _QUEUE_STATE_MAX; s++)
                for (const XschedQueue *q = c->queues[s]; q; q = q->next)
                        if (atomic_load_explicit(&q->look_wanted, memory_order_seq_cst))
                                return true;
        return false;
}

/* Takes the requests that cannot wait. */
static void advance(Control *c) {
        uint64_t early = atomic_exchange_explicit(&early_ns, 0, memory_order_seq_cst);

        if (early != 0)
                c->look_at_ns = MIN(c->look_at_ns, early);
}

void look_turn(Control *c) {
        if (!atomic_load_explicit(&ticking, memory_order_seq_cst))
                return;

        uint64_t now = now_ns();
        if (c->look_at_ns == 0)
                c->look_at_ns = now + LOOK_NS;
        advance(c);
        if (now < c->look_at_ns)
                return;
        c->look_at_ns = now + LOOK_NS;
        if (look_at_all(c) > 0) {
                advance(c);
                return;
        }

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
        atomic_store_explicit(&early_ns, 0, memory_order_seq_cst);
        atomic_store_explicit(&ticking, false, memory_order_seq_cst);
}
