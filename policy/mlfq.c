/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Multi-level feedback queue (MLFQ; Corbato et al., "An Experimental Time-Sharing System", 1962, with the rules of
 * Arpaci-Dusseau, "Operating Systems: Three Easy Pieces", chapter 8)
 *
 * Nobody says what is interactive: whoever needs the device for moments shows that. An entity begins at the highest
 * level. When it has used up the slice of its level, in how many pieces ever, it goes down one; slices double from
 * level to level, so that batch work is switched seldom. MLFQ_BOOST_NS after it last went down it is at the top again:
 * so nobody is starved, and who changes his habits is not held to his past. At one level they take turns.
 *
 * Priorities and weights count for nothing. Where nobody waits nobody goes down, but what was used counts.
 */

#include "core.h"

#define MLFQ_LEVELS   5
#define MLFQ_BOOST_NS NSEC_PER_SEC

/* Who comes again goes on with what is left of the slice. */
static void mlfq_put(Order *o, OrderEntity *e, int step) {
        uint64_t left_ns = ns_sub(o->config->timeslice_ns << step, e->used_ns);

        e->step = step;
        e->level = -step;
        e->slice_ns = MAX(left_ns, UINT64_C(1));
        e->alarm_ns = e->here && step > 0 ? ns_add(e->since_ns, MLFQ_BOOST_NS) : NSEC_INFINITY;
}

static void mlfq_boost(Order *o, OrderEntity *e) {
        if (e->step == 0 || o->now_ns < ns_add(e->since_ns, MLFQ_BOOST_NS))
                return;
        e->used_ns = 0;
        mlfq_put(o, e, 0);
}

static void mlfq_hint(Order *o, OrderEntity *e) {
        mlfq_put(o, e, e->step);
}

static void mlfq_enqueue(Order *o, OrderEntity *e) {
        mlfq_put(o, e, e->step);
        mlfq_boost(o, e);
}

static void mlfq_charge(Order *o, OrderEntity *e, uint64_t ns) {
        e->used_ns = ns_add(e->used_ns, ns);
}

static void mlfq_tick(Order *o, OrderEntity *e) {
        int step = e->step;

        for (; step < MLFQ_LEVELS - 1 && e->used_ns >= o->config->timeslice_ns << step; step++) {
                e->used_ns -= o->config->timeslice_ns << step;
                e->since_ns = o->now_ns;
        }
        if (step == MLFQ_LEVELS - 1)
                e->used_ns = 0;
        mlfq_put(o, e, step);
        mlfq_boost(o, e);
}

DEFINE_POLICY(mlfq,
                "Multi-level feedback queue: who needs the device for moments before who needs it for long",
                .feedback = true, .hint = mlfq_hint, .enqueue = mlfq_enqueue, .dequeue = mlfq_hint,
                .charge = mlfq_charge, .tick = mlfq_tick);
