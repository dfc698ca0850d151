/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The core's side of an ordering; see ordering.h.
 */

#include <utlist.h>

#include "keep.h"
#include "node.h"
#include "ordering.h"
#include "parties.h"
#include "place.h"
#include "rank.h"
#include "tier.h"
#include "usage.h"

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
        call(&p->order, &e->order);
}

void entity_set_party(PolicyEntity *e, Party *party) {
        e->party = party;
        e->order.party = party ? &party->order : NULL;
}

void entity_order_init(PolicyEntity *e) {
        e->alarm_ns = NSEC_INFINITY;
        e->order = (OrderEntity){
                        .settings = &e->settings,
                        .budget_ns = NSEC_INFINITY,
                        .alarm_ns = NSEC_INFINITY,
        };
        entity_set_party(e, e->party);
        order_call(e, e->policy->ordering->hint);
}

void entity_order_end(PolicyEntity *e) {
        if (e->alarm_ns != NSEC_INFINITY)
                entity_set_alarm(e, NSEC_INFINITY);
}

/* Without memory for a branch it stays in its tier. */
static bool entity_change_tier(PolicyEntity *e, Tier *t) {
        Branch *to = branch_get(e->node, t);

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
        Tier *t = core_tier(e->policy, e->order.level);
        bool moved = t != e->branch->tier && entity_change_tier(e, t);

        if (e->alarm_ns != e->order.alarm_ns)
                entity_set_alarm(e, e->order.alarm_ns);
        if (!moved && e->branch->tier->ranked && e->fair.state == FAIR_HERE && e->fair.vtime != e->order.rank)
                entity_requeue(e);
}

void entity_hint(PolicyEntity *e) {
        order_call(e, e->policy->ordering->hint);
        entity_follow(e);
}

void entity_enqueue(PolicyEntity *e) {
        const OrderOps *ops = e->policy->ordering;

        e->order.here = true;
        if (ops->enqueue)
                order_call(e, ops->enqueue);
        entity_follow(e);
}

void entity_dequeue(PolicyEntity *e) {
        const OrderOps *ops = e->policy->ordering;

        e->order.here = false;
        if (ops->dequeue)
                order_call(e, ops->dequeue);
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
                if (e->left_ns != NSEC_INFINITY)
                        e->left_ns = ns_sub(e->left_ns, ns);
                entity_charge(e, ns);
        }
}

/* --- budgets and alarms --- */

static void entity_end_budget(PolicyEntity *e) {
        order_call(e, e->policy->ordering->tick);
        e->left_ns = e->order.budget_ns;
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

static bool entity_is_spent(PolicyEntity *e) {
        Policy *p = e->policy;

        p->order.now_ns = p->now_ns;
        if (p->ordering->left) {
                uint64_t left_ns = p->ordering->left(&p->order, &e->order);

                e->left_ns = MIN(e->left_ns, left_ns);
        }
        return e->left_ns == 0;
}

/* This ends: an entity that was asked has a budget again, and an alarm later than now. */
bool core_tick(Policy *p) {
        PolicyEntity *e, *next;
        bool any;

        any = core_ring(p);
        DL_FOREACH_SAFE2(p->chosen, e, next, chosen_next)
                if (entity_is_spent(e) && core_is_wanted(p)) {
                        entity_end_budget(e);
                        any = true;
                }
        return any;
}

uint64_t core_next_tick(const Policy *p) {
        const PolicyEntity *e, *first;
        uint64_t next = NSEC_INFINITY;

        if (!core_is_wanted(p))
                return NSEC_INFINITY;
        DL_FOREACH2(p->chosen, e, chosen_next)
                if (!e->blocked && e->left_ns != NSEC_INFINITY) {
                        uint64_t t = ns_add(p->now_ns, e->left_ns);

                        next = MIN(next, t);
                }
        first = alarm_of(avl_first(&p->alarms));
        return first ? MIN(next, first->alarm_ns) : next;
}
