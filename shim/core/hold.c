/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Holds beyond the gate: the control thread's work for queues whose backend can stop submitted work
 *
 * One rule, evaluated anew in every turn: a queue has to be stopped when it has a slot whose verdict is hold, at a
 * level that asks for it, under a lease that has not run out. Otherwise it has to run. So the thread remembers no
 * events: a nudge, the end of a lease, the loss of the service and the death of a queue all lead to the same turn.
 *
 * No queue stays stopped longer than its lease, because the thread sleeps no longer than the lease of any stopped queue
 * (hold_next_ns()), and because a release is repeated until it works. A service that comes back after its lease ran out
 * holds again without a nudge: while a slot says hold without a valid lease, the thread checks the lease as often as a
 * service renews it.
 */

#include "hold.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "shim/core/client.h"
#include "shim/core/control.h"

#define RETRY_NS (20 * NSEC_PER_MSEC)

static PageSlot *hold_slot(const Control *c, const XschedQueue *q) {
        return q->state == QUEUE_ATTACHED && c->page.header && !q->dead ? page_slot(&c->page, q->slot) : NULL;
}

/* Returns the slot's verdict word; 0 without a slot. */
static uint32_t hold_word(const Control *c, const XschedQueue *q) {
        const PageSlot *s = hold_slot(c, q);
        return s ? atomic_load_explicit(&s->verdict, memory_order_seq_cst) : 0;
}

/* Returns whether that word asks for a stop, disregarding the lease. */
static bool hold_ordered(const Control *c, const XschedQueue *q, uint32_t word) {
        const PageSlot *s = hold_slot(c, q);

        return s && word & PAGE_VERDICT_HOLD && atomic_load_explicit(&s->level, memory_order_relaxed) >= LEVEL_DEQUEUE;
}

static bool hold_wanted(const Control *c, const XschedQueue *q, uint32_t word, uint64_t now) {
        return word != q->refused && hold_ordered(c, q, word) && page_hold_is_valid(c->page.header, now);
}

static bool hold_is_due(const Control *c, const XschedQueue *q, bool wanted, uint64_t now) {
        if (!q->apply || q->retry_at_ns > now)
                return false;
        return wanted != q->held || (q->apply_due && hold_slot(c, q));
}

static uint32_t clamp_ns(uint64_t ns) {
        return (uint32_t) MIN(ns, (uint64_t) UINT32_MAX);
}

/* Stores the times of an order for the service's estimates. Skips an order that was overtaken by another, and the end
 * of a lease. */
static void hold_tell_times(PageSlot *s, uint32_t word, bool held, uint64_t start, uint64_t end) {
        uint64_t ordered = atomic_load_explicit(&s->ordered_ns, memory_order_relaxed);

        if (ordered == 0 || ordered > start || held != !!(word & PAGE_VERDICT_HOLD))
                return;
        atomic_store_explicit(
                        held ? &s->hold_wake_ns : &s->release_wake_ns, clamp_ns(start - ordered), memory_order_relaxed);
        atomic_store_explicit(
                        held ? &s->hold_call_ns : &s->release_call_ns, clamp_ns(end - start), memory_order_relaxed);
}

/* Stores the word that the call was made for; if it has changed meanwhile, the next turn acts on it. A refused hold, or
 * one whose lease has run out, is not reported as applied. */
static void hold_tell(PageSlot *s, const XschedQueue *q) {
        atomic_store_explicit(&s->applied, q->held ? q->word : q->word & ~PAGE_VERDICT_HOLD, memory_order_seq_cst);
}

static void hold_done(const Control *c, XschedQueue *q, bool held, uint64_t start, uint64_t end) {
        PageSlot *s = hold_slot(c, q);

        q->held = held;
        q->apply_due = false;
        q->retry_at_ns = 0;
        if (!s)
                return;
        hold_tell_times(s, q->word, held, start, end);
        hold_tell(s, q);
}

/* After a failed call the state is unknown: the queue is released until that works. A failed hold is not repeated until
 * the service changes the word. */
static void hold_failed(XschedQueue *q, bool held) {
        q->apply_due = false;
        q->held = true;
        if (held)
                q->refused = q->word;
        else
                q->retry_at_ns = now_ns() + RETRY_NS;
}

static void hold_apply(Control *c, uint32_t n, bool held) {
        uint64_t start = now_ns();
        int r = c->batch[0]->apply(c->batch, c->batch_userdata, n, held);
        uint64_t end = now_ns();
        if (r < 0)
                client_debug("xsched: cannot %s %u queues of %s: %s", held ? "hold" : "let go", n, c->batch[0]->device,
                                strerror(-r));
        for (uint32_t i = 0; i < n; i++)
                if (r >= 0)
                        hold_done(c, c->batch[i], held, start, end);
                else
                        hold_failed(c->batch[i], held);
}

static void hold_collect(Control *c, QueueState state, bool held, uint64_t now, uint32_t *n) {
        for (XschedQueue *q = c->queues[state]; q && *n < ELEMENTSOF(c->batch); q = q->next) {
                uint32_t word = hold_word(c, q);
                if (hold_wanted(c, q, word, now) != held || !hold_is_due(c, q, held, now))
                        continue;
                if (*n > 0 && (q->apply != c->batch[0]->apply || !streq(q->device, c->batch[0]->device)))
                        continue;
                q->word = word;
                c->batch[*n] = q;
                c->batch_userdata[(*n)++] = q->userdata;
        }
}

/* One batch. Returns false when nothing was due. */
static bool hold_step(Control *c, bool held) {
        uint64_t now = now_ns();
        uint32_t n = 0;

        for (QueueState s = 0; s < _QUEUE_STATE_MAX; s++)
                hold_collect(c, s, held, now, &n);
        if (n > 0)
                hold_apply(c, n, held);
        return n > 0;
}

/* Each step reduces the queues that are due, unless the service changes its mind again and again. */
#define STEPS_MAX 1000U

/* Reports orders as applied that were taken back before the thread saw them. */
static void hold_catch_up(const Control *c) {
        uint64_t now = now_ns();

        for (XschedQueue *q = c->queues[QUEUE_ATTACHED]; q; q = q->next) {
                PageSlot *s = q->apply ? hold_slot(c, q) : NULL;
                uint32_t word = s ? hold_word(c, q) : 0;
                if (!s || word == q->word || q->apply_due || hold_wanted(c, q, word, now) != q->held)
                        continue;
                q->word = word;
                hold_tell(s, q);
        }
}

void hold_turn(Control *c) {
        if (likely(c->n_stoppable == 0))
                return;
        for (unsigned i = 0; i < STEPS_MAX; i++)
                if (!hold_step(c, false) && !hold_step(c, true))
                        break;
        hold_catch_up(c);
}

void hold_forget_queue(Control *c, XschedQueue *q) {
        if (!q->apply)
                return;
        if (q->held)
                (void) q->apply(&q, &q->userdata, 1, false);
        q->held = false;
        c->n_stoppable--;
}

uint64_t hold_next_ns(const Control *c) {
        uint64_t next = NSEC_INFINITY, now = c->n_stoppable > 0 ? now_ns() : 0;

        for (QueueState state = 0; c->n_stoppable > 0 && state < _QUEUE_STATE_MAX; state++)
                for (const XschedQueue *q = c->queues[state]; q; q = q->next) {
                        if (!q->apply)
                                continue;
                        if (q->retry_at_ns > 0)
                                next = MIN(next, q->retry_at_ns);
                        if (!hold_ordered(c, q, hold_word(c, q)))
                                continue;
                        uint64_t lease = atomic_load_explicit(&c->page.header->lease_until_ns, memory_order_seq_cst);
                        next = MIN(next, lease > now ? lease : now + PAGE_LEASE_RENEW_NS);
                }
        return next;
}
