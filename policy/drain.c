/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tails: drain.h has the rules and their reasons.
 */

#include <utlist.h>

#include "drain.h"
#include "floor.h"
#include "node.h"
#include "ordering.h"
#include "tier.h"
#include "usage.h"

/* Returns the n-th draining entity, from 0; NULL: there are fewer. */
static PolicyEntity *core_drainer(const Policy *p, size_t n) {
        PolicyEntity *e = p->draining;

        while (e && n-- > 0)
                e = e->draining_next;
        return e;
}

static uint64_t entity_drain_since(const PolicyEntity *e) {
        return e->drain_until_ns - POLICY_TAIL_MAX;
}

void entity_drain_begin(PolicyEntity *e) {
        Policy *p = e->policy;

        if (e->draining)
                return;
        e->draining = true;
        e->drain_until_ns = ns_add(p->now_ns, POLICY_TAIL_MAX);
        DL_APPEND2(p->draining, e, draining_prev, draining_next);
        p->n_draining++;
}

/* Entities behind it move up, so their waits until now are settled. */
void entity_drain_end(PolicyEntity *e) {
        Policy *p = e->policy;

        if (!e->draining)
                return;

        PolicyEntity *next = core_drainer(p, p->config.concurrency);
        entity_account(e);
        if (next)
                entity_account(next);
        e->draining = false;
        DL_DELETE2(p->draining, e, draining_prev, draining_next);
        p->n_draining--;
}

PolicyEntity *entity_drain_pause(PolicyEntity *e) {
        PolicyEntity *next = e->draining_next;

        entity_drain_end(e);
        return next;
}

/* Meanwhile only the first ones can have ended: if the next one has, all before it have, too. */
void entity_drain_resume(PolicyEntity *e, PolicyEntity *next) {
        Policy *p = e->policy;

        entity_account(e);
        e->draining = true;
        if (!next)
                DL_APPEND2(p->draining, e, draining_prev, draining_next);
        else if (next->draining)
                DL_PREPEND_ELEM2(p->draining, next, e, draining_prev, draining_next);
        else
                DL_PREPEND2(p->draining, e, draining_prev, draining_next);
        p->n_draining++;
}

/* --- entities that wait to be granted --- */

/* Whether the turn of a minimum would have to wait for its tail. */
static bool entity_is_awaited_by_turn(const PolicyEntity *e) {
        return !e->chosen && e != e->policy->owed;
}

/* Whether an entity of the active tier would. */
static bool entity_is_awaited(const PolicyEntity *e) {
        return entity_is_awaited_by_turn(e) && (e->branch->tier >= e->policy->active || e->by_turn);
}

/* Orders the latest first, and only those that are still waited for. */
static const PolicyEntity *drainer_before(const Policy *p, const PolicyEntity *e) {
        const PolicyEntity *d;

        if (!p->draining || e == p->draining)
                return NULL;
        d = e ? e->draining_prev : p->draining->draining_prev;
        return p->now_ns - entity_drain_since(d) < POLICY_TAIL_WAIT ? d : NULL;
}

bool entity_has_turn(const PolicyEntity *e) {
        for (const Branch *b = e->branch; b; b = b->parent)
                if (b == e->policy->turn)
                        return true;
        return false;
}

/* A running entity goes on, and a draining one takes the place of its own tail. */
static bool entity_goes_at_once(const PolicyEntity *e) {
        return e->grant.verdict == VERDICT_RUN || e->draining || entity_is_starved(e);
}

void entity_set_awaits_tail(PolicyEntity *e, bool awaits) {
        if (e->awaits_tail == awaits)
                return;
        entity_account(e);
        e->awaits_tail = awaits;
        e->policy->n_awaiting += awaits ? 1U : -1U;
}

void core_await_tails(Policy *p) {
        size_t places = p->config.concurrency, n = 0, n_tails = 0, n_tails_of_turn = 0;
        const PolicyEntity *d = NULL;
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                n += entity_goes_at_once(e);
        while (n + n_tails < places && (d = drainer_before(p, d))) {
                n_tails += entity_is_awaited(d);
                n_tails_of_turn += entity_is_awaited_by_turn(d);
        }
        DL_FOREACH2(p->chosen, e, chosen_next) {
                size_t taken = n + (p->turn && entity_has_turn(e) ? n_tails_of_turn : n_tails);
                bool at_once = entity_goes_at_once(e), awaits = !at_once && taken >= places;

                entity_set_awaits_tail(e, awaits);
                n += !at_once && !awaits;
        }
}

uint64_t core_next_await_end(const Policy *p) {
        const PolicyEntity *d = NULL;
        uint64_t next = NSEC_INFINITY;

        while ((d = drainer_before(p, d)))
                if (entity_is_awaited(d) || (p->turn && entity_is_awaited_by_turn(d)))
                        next = entity_drain_since(d) + POLICY_TAIL_WAIT;
        return next;
}

bool core_turn_awaits(const Policy *p) {
        const PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (e->awaits_tail && p->turn && entity_has_turn(e))
                        return true;
        return false;
}

/* --- granted entities that wait --- */

/* A branch that has a turn of its own uses no place above. */
static void entity_mark_blocked(PolicyEntity *e, bool blocked) {
        uint32_t one = blocked ? 1U : -1U;

        e->blocked = blocked;
        if (!e->chosen)
                return;
        e->fair.blocked += one;
        for (Branch *b = e->branch; b->parent && b != e->policy->turn; b = b->parent)
                b->self.blocked += one;
}

void core_block(Policy *p) {
        size_t n = core_n_blocked(p);
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (e->awaits_tail)
                        entity_mark_blocked(e, true);
        DL_FOREACH2(p->granted, e, granted_next) {
                if (n == 0)
                        return;
                if (e->ready) {
                        entity_mark_blocked(e, true);
                        n--;
                }
        }
}

void core_unblock(Policy *p) {
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (e->blocked)
                        entity_mark_blocked(e, false);
        DL_FOREACH2(p->granted, e, granted_next)
                if (e->blocked)
                        entity_mark_blocked(e, false);
}

static void entity_charge_tail(PolicyEntity *e, uint64_t ns) {
        uint64_t slice_ns = tier_slice(e->branch->tier);

        entity_charge(e, ns);
        if (e->branch->tier->ranked)
                return;
        fair_queue_charge_tail(&e->branch->fair, &e->fair, ns, slice_ns);
        for (Branch *b = e->branch; b->parent; b = b->parent)
                fair_queue_charge_tail(&b->parent->fair, &b->self, ns, slice_ns);
}

/* A turn of the floor is not a part of a share, and neither is its tail. */
void core_charge_tails(Policy *p, uint64_t from_ns, uint64_t ns) {
        bool nodes = core_charges_nodes(p);
        PolicyEntity *e = p->draining;

        for (size_t n = p->config.concurrency; e && n > 0; n--, e = e->draining_next) {
                if (!e->by_floor)
                        entity_charge_tail(e, ns);
                if (nodes)
                        node_charge(e->node, from_ns, ns, e->by_floor ? NODE_OWED : NODE_RAN, e->by_turn);
        }
        if (!nodes)
                return;
        e = p->draining;
        for (size_t n = p->config.concurrency; e && n > 0; n--, e = e->draining_next)
                node_check_quotas(e->node);
}
