/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Multi-level feedback queue (MLFQ; Corbato et al., "An Experimental Time-Sharing System", 1962, with the rules of
 * Arpaci-Dusseau, "Operating Systems: Three Easy Pieces", chapter 8)
 *
 * No setting says what is interactive: an entity shows it by using the device for moments only. An entity begins at the
 * highest level. When it has used up the budget of its level, in any number of pieces, it goes down one level. Budgets
 * and turns double from level to level, so that batch work is switched seldom. MLFQ_BOOST_NS after it last went down an
 * entity is at the top again: so none starves, and its past does not count for ever. Entities of one level take turns,
 * group by group over the tree.
 *
 * New entities begin at the top. So where there are several parties, the entities of one party together have at most
 * MLFQ_PARTY budgets of a level in each MLFQ_BOOST_NS. When these are used up, the party's entities at that level go
 * down, and those that come begin below it. An entity that is its whole party has all of them. So a party gains nothing
 * by many processes, or by starting them anew, and its batch work cannot use up the part of an interactive entity.
 *
 * Priorities and weights do not count. While no entity waits none goes down, but time is counted.
 */

#include "core.h"

#define MLFQ_BOOST_NS NSEC_PER_SEC
#define MLFQ_PARTY    2

static uint64_t mlfq_budget(const Order *o, unsigned step) {
        return o->config->timeslice_ns << step;
}

static bool mlfq_has_rivals(const Order *o) {
        return o->n_parties > 1;
}

/* Of the entity on that level. */
static uint64_t mlfq_own(const Order *o, const OrderEntity *e, unsigned step) {
        return mlfq_budget(o, step) * (mlfq_has_rivals(o) && e->party->n == 1 ? MLFQ_PARTY : 1);
}

static uint64_t mlfq_slice(const Order *o, int level) {
        return mlfq_budget(o, (unsigned) -level);
}

/* The time that the entity's party has left at that level. At the lowest level, or without rivals, it is not
 * bounded. */
static uint64_t mlfq_party_left(const Order *o, const OrderEntity *e, unsigned step) {
        if (step == ORDER_STEPS - 1 || !mlfq_has_rivals(o) || o->now_ns >= ns_add(e->party->since_ns, MLFQ_BOOST_NS))
                return NSEC_INFINITY;
        return ns_sub(MLFQ_PARTY * mlfq_budget(o, step), e->party->used_ns[step]);
}

/* An entity that comes back goes on with the rest of its budget. */
static void mlfq_put(Order *o, OrderEntity *e, unsigned step) {
        uint64_t left_ns = ns_sub(mlfq_own(o, e, step), e->used_ns), party_ns = mlfq_party_left(o, e, step);

        left_ns = MIN(left_ns, party_ns);
        e->step = step;
        e->level = -(int) step;
        e->budget_ns = MAX(left_ns, UINT64_C(1));
        e->alarm_ns = e->here && step > 0 ? ns_add(e->since_ns, MLFQ_BOOST_NS) : NSEC_INFINITY;
}

static void mlfq_sink(Order *o, OrderEntity *e) {
        unsigned step = e->step;

        while (mlfq_party_left(o, e, step) == 0) {
                step++;
                e->used_ns = 0;
                e->since_ns = o->now_ns;
        }
        mlfq_put(o, e, step);
}

static void mlfq_boost(Order *o, OrderEntity *e) {
        if (e->step > 0 && o->now_ns >= ns_add(e->since_ns, MLFQ_BOOST_NS)) {
                e->used_ns = 0;
                e->step = 0;
        }
        mlfq_sink(o, e);
}

static void mlfq_hint(Order *o, OrderEntity *e) {
        mlfq_put(o, e, e->step);
}

static void mlfq_charge(Order *o, OrderEntity *e, uint64_t ns) {
        OrderParty *p = e->party;

        if (o->now_ns >= ns_add(p->since_ns, MLFQ_BOOST_NS))
                *p = (OrderParty){.n = p->n, .since_ns = o->now_ns};
        p->used_ns[e->step] = ns_add(p->used_ns[e->step], ns);
        e->used_ns = ns_add(e->used_ns, ns);
}

static void mlfq_tick(Order *o, OrderEntity *e) {
        for (; e->step < ORDER_STEPS - 1 && e->used_ns >= mlfq_own(o, e, e->step); e->step++) {
                e->used_ns -= mlfq_own(o, e, e->step);
                e->since_ns = o->now_ns;
        }
        if (e->step == ORDER_STEPS - 1)
                e->used_ns = 0;
        mlfq_boost(o, e);
}

static uint64_t mlfq_left(const Order *o, const OrderEntity *e) {
        return mlfq_party_left(o, e, e->step);
}

DEFINE_POLICY(mlfq, "Multi-level feedback queue: short work goes before long work", .parties = true,
                .slice = mlfq_slice, .hint = mlfq_hint, .enqueue = mlfq_boost, .dequeue = mlfq_hint,
                .charge = mlfq_charge, .tick = mlfq_tick, .left = mlfq_left);
