/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The core's side of an ordering; see ordering.h.
 */

#include <utlist.h>

#include "keep.h"
#include "node.h"
#include "ordering.h"
#include "rank.h"

/* --- alarms --- */

static PolicyEntity *alarm_of(AvlNode *n) {
        return n ? container_of(n, PolicyEntity, alarm_order) : NULL;
}

static bool alarm_before(const AvlNode *a, const AvlNode *b) {
        const PolicyEntity *x = container_of(a, PolicyEntity, alarm_order),
                           *y = container_of(b, PolicyEntity, alarm_order);

        return x->alarm_ns < y->alarm_ns || (x->alarm_ns == y->alarm_ns && x->alarm_seq < y->alarm_seq);
}

static void alarm_update(AvlNode *n) {
}

static void entity_set_alarm(PolicyEntity *e, uint64_t at_ns) {
        Policy *p = e->policy;

        if (e->alarm_ns == at_ns)
                return;
        if (e->alarm_ns != NSEC_INFINITY)
                avl_remove(&p->alarms, &e->alarm_order);
        e->alarm_ns = at_ns;
        e->alarm_seq = p->alarm_seq++;
        if (at_ns != NSEC_INFINITY)
                avl_insert(&p->alarms, &e->alarm_order);
}

void ordering_init(Policy *p, const OrderOps *ops) {
        p->ordering = ops;
        p->order.config = &p->config;
        p->outside_level = POLICY_LEVEL_NONE;
        p->alarms = (Avl){.before = alarm_before, .update = alarm_update};
}

/* --- asking --- */

typedef void (*order_call_t)(Order *o, OrderEntity *e);

static void order_call(PolicyEntity *e, order_call_t call) {
        Policy *p = e->policy;

        p->order.now_ns = p->now_ns;
        if (call)
                call(&p->order, &e->order);
}

void entity_order_init(PolicyEntity *e) {
        e->alarm_ns = NSEC_INFINITY;
        e->order = (OrderEntity){
                        .settings = &e->settings,
                        .slice_ns = e->policy->config.timeslice_ns,
                        .alarm_ns = NSEC_INFINITY,
        };
        order_call(e, e->policy->ordering->hint);
}

void entity_order_end(PolicyEntity *e) {
        entity_set_alarm(e, NSEC_INFINITY);
}

/* Without memory for a branch it stays in its tier. */
static bool entity_follow_level(PolicyEntity *e) {
        Tier *t = core_tier(e->policy, e->order.level);
        Branch *to;

        if (t == e->branch->tier)
                return false;
        to = branch_get(e->node, t);
        if (to)
                entity_change_branch(e, to);
        return to;
}

/* Behind those of its rank. */
static void entity_requeue(PolicyEntity *e) {
        rank_queue_put(&e->branch->fair, &e->fair, e->order.rank, e->policy->rank_seq++);
        branch_changed(e->branch);
}

void entity_follow(PolicyEntity *e) {
        bool moved = entity_follow_level(e);

        if (!core_is_ranked(e->policy))
                return;
        entity_set_alarm(e, e->order.alarm_ns);
        if (!moved && e->fair.state == FAIR_HERE && e->fair.vtime != e->order.rank)
                entity_requeue(e);
}

void entity_hint(PolicyEntity *e) {
        order_call(e, e->policy->ordering->hint);
        entity_follow(e);
}

void entity_enqueue(PolicyEntity *e) {
        e->order.here = true;
        order_call(e, e->policy->ordering->enqueue);
        entity_follow(e);
}

void entity_dequeue(PolicyEntity *e) {
        e->order.here = false;
        order_call(e, e->policy->ordering->dequeue);
}

void entity_charge(PolicyEntity *e, uint64_t ns) {
        Policy *p = e->policy;

        p->order.now_ns = p->now_ns;
        if (p->ordering->charge)
                p->ordering->charge(&p->order, &e->order, ns);
}

void core_charge_chosen(Policy *p, uint64_t ns) {
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next) {
                if (e->blocked)
                        continue;
                if (e->fair.left_ns != NSEC_INFINITY)
                        e->fair.left_ns = ns_sub(e->fair.left_ns, ns);
                entity_charge(e, ns);
        }
}

/* --- slices and alarms --- */

/* Somebody would have its place: of its queue, which is that of the turn, or its tier's. */
static bool entity_is_contended(const PolicyEntity *e) {
        const Policy *p = e->policy;
        const Branch *b = e->branch;

        if (p->ordering->feedback && core_is_wanted(p))
                return true;
        while (b->parent && b != p->turn)
                b = b->parent;
        return b->fair.places > (b == p->turn ? 1 : p->slots);
}

static void entity_end_slice(PolicyEntity *e) {
        order_call(e, e->policy->ordering->tick);
        e->fair.left_ns = e->order.slice_ns;
        if (e->fair.state == FAIR_HERE)
                entity_requeue(e);
        entity_follow(e);
}

static bool core_ring(Policy *p) {
        PolicyEntity *e;
        bool any = false;

        while ((e = alarm_of(avl_first(&p->alarms))) && e->alarm_ns <= p->now_ns) {
                e->order.alarm_ns = NSEC_INFINITY;
                order_call(e, p->ordering->tick);
                entity_follow(e);
                any = true;
        }
        return any;
}

/* Ends: who was asked has a slice again, and an alarm later than now. */
bool core_tick(Policy *p) {
        PolicyEntity *e, *next;
        bool any;

        if (!core_is_ranked(p))
                return false;
        any = core_ring(p);
        DL_FOREACH_SAFE2(p->chosen, e, next, chosen_next)
                if (e->fair.left_ns == 0 && entity_is_contended(e)) {
                        entity_end_slice(e);
                        any = true;
                }
        return any;
}

uint64_t core_next_tick(const Policy *p) {
        const PolicyEntity *e, *first;
        uint64_t next = NSEC_INFINITY;

        if (!core_is_ranked(p))
                return NSEC_INFINITY;
        DL_FOREACH2(p->chosen, e, chosen_next)
                if (!e->blocked && e->fair.left_ns != NSEC_INFINITY && entity_is_contended(e)) {
                        uint64_t t = ns_add(p->now_ns, e->fair.left_ns);

                        next = MIN(next, t);
                }
        first = alarm_of(avl_first(&p->alarms));
        if (first && core_is_wanted(p))
                next = MIN(next, first->alarm_ns);
        return next;
}

/* --- choosing --- */

static PolicyEntity *entity_of(FairNode *n) {
        return container_of(n, PolicyEntity, fair);
}

void core_choose_ranked(Branch *b, uint32_t slots) {
        FairNode *n = NULL;

        b->fair.used = 0;
        while (b->fair.used < slots && (n = rank_queue_next(&b->fair, n))) {
                entity_choose(entity_of(n));
                b->fair.used++;
        }
}

bool entity_is_first(const PolicyEntity *e, const Branch *b) {
        FairNode *n = NULL;

        if (!e->policy->ordering->keeps)
                return false;
        while ((n = rank_queue_next(&b->fair, n)))
                if (!entity_of(n)->chosen)
                        return (int64_t) (e->fair.vtime - n->vtime) < 0;
        return false;
}

/* --- several devices --- */

bool core_is_outranked(const Policy *p, const Tier *t) {
        return (int) (t - p->tiers) + POLICY_PRIORITY_MIN < p->outside_level;
}

int core_level(const Policy *p) {
        const Tier *top = core_highest(p, &p->with_places);

        if (p->turn && p->turn->tier > top)
                top = p->turn->tier;
        return top ? (int) (top - p->tiers) + POLICY_PRIORITY_MIN : POLICY_LEVEL_NONE;
}

void core_outside(Policy *p, int level, uint64_t now_ns) {
        core_advance(p, now_ns);
        p->outside_level = p->ordering->global ? level : POLICY_LEVEL_NONE;
}
