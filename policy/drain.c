/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tails; the rules and their reasons stand in drain.h.
 */

#include <utlist.h>

#include "drain.h"
#include "floor.h"
#include "node.h"

/* The n-th that drains, from 0; NULL: there are fewer. */
static PolicyEntity *tree_drainer(const Policy *p, size_t n) {
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

/* Those behind it move up: what they waited until now is settled. */
void entity_drain_end(PolicyEntity *e) {
        Policy *p = e->policy;

        if (!e->draining)
                return;

        PolicyEntity *next = tree_drainer(p, p->config.concurrency);
        entity_account(e);
        if (next)
                entity_account(next);
        e->draining = false;
        DL_DELETE2(p->draining, e, draining_prev, draining_next);
        p->n_draining--;
}

bool entity_has_tail(const PolicyEntity *e) {
        const Policy *p = e->policy;
        const PolicyEntity *d = p->draining;

        if (!e->draining)
                return false;
        for (size_t n = p->config.concurrency; d && d != e && n > 1; n--)
                d = d->draining_next;
        return d == e;
}

size_t tree_n_blocked(const Policy *p) {
        size_t n_tails = MIN(p->n_draining, (size_t) p->config.concurrency), n = n_tails;
        const PolicyEntity *e;

        if (n_tails == 0)
                return 0;
        DL_FOREACH2(p->granted, e, granted_next)
                n += e->ready;
        return MIN(ns_sub(n, p->config.concurrency), n_tails);
}

bool entity_is_blocked(const PolicyEntity *e) {
        size_t n = tree_n_blocked(e->policy);
        const PolicyEntity *g;

        if (!e->ready || e->grant.verdict != VERDICT_RUN)
                return false;
        DL_FOREACH2(e->policy->granted, g, granted_next) {
                if (n == 0 || g == e)
                        break;
                n -= g->ready;
        }
        return n > 0;
}

/* --- who waits to be granted --- */

/* Somebody who is its equal would have to wait for it. */
static bool entity_is_awaited(const PolicyEntity *e) {
        const Policy *p = e->policy;

        return e->branch->tier == p->active && !e->chosen && e != p->owed;
}

/* The latest first, and those that are waited for still. */
static const PolicyEntity *drainer_before(const Policy *p, const PolicyEntity *e) {
        const PolicyEntity *d;

        if (!p->draining || e == p->draining)
                return NULL;
        d = e ? e->draining_prev : p->draining->draining_prev;
        return p->now_ns - entity_drain_since(d) < POLICY_TAIL_WAIT ? d : NULL;
}

static bool entity_has_turn(const PolicyEntity *e) {
        for (const Branch *b = e->branch; b; b = b->parent)
                if (b == e->policy->turn)
                        return true;
        return false;
}

/* Whoever runs goes on, and who drains takes the place of his own tail. */
static bool entity_goes_at_once(const PolicyEntity *e) {
        return e->grant.verdict == VERDICT_RUN || e->draining || entity_has_turn(e) || entity_is_starved(e);
}

void entity_set_awaits_tail(PolicyEntity *e, bool awaits) {
        if (e->awaits_tail == awaits)
                return;
        entity_account(e);
        e->awaits_tail = awaits;
}

void tree_await_tails(Policy *p) {
        size_t places = p->config.concurrency, n = 0;
        const PolicyEntity *d = NULL;
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                n += entity_goes_at_once(e);
        while (n < places && (d = drainer_before(p, d)))
                n += entity_is_awaited(d);
        DL_FOREACH2(p->chosen, e, chosen_next) {
                bool at_once = entity_goes_at_once(e), awaits = !at_once && n >= places;

                entity_set_awaits_tail(e, awaits);
                n += !at_once && !awaits;
        }
}

uint64_t tree_next_await_end(const Policy *p) {
        const PolicyEntity *e, *d = NULL;
        uint64_t next = NSEC_INFINITY;
        bool any = false;

        DL_FOREACH2(p->chosen, e, chosen_next)
                any = any || e->awaits_tail;
        while (any && (d = drainer_before(p, d)))
                if (entity_is_awaited(d))
                        next = entity_drain_since(d) + POLICY_TAIL_WAIT;
        return next;
}

/* --- who waits although he is granted --- */

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

void tree_block(Policy *p) {
        size_t n = tree_n_blocked(p);
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

void tree_unblock(Policy *p) {
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (e->blocked)
                        entity_mark_blocked(e, false);
        DL_FOREACH2(p->granted, e, granted_next)
                if (e->blocked)
                        entity_mark_blocked(e, false);
}

/* A turn of the floor is no part of a share, and nor is its tail. */
void tree_charge_tails(Policy *p, uint64_t from_ns, uint64_t ns) {
        PolicyEntity *e = p->draining;
        uint64_t slice_ns = p->config.timeslice_ns;

        for (size_t n = p->config.concurrency; e && n > 0; n--, e = e->draining_next) {
                if (!e->by_floor) {
                        fair_queue_charge_tail(&e->branch->fair, &e->fair, ns, slice_ns);
                        for (Branch *b = e->branch; b->parent; b = b->parent)
                                fair_queue_charge_tail(&b->parent->fair, &b->self, ns, slice_ns);
                }
                node_charge(e->node, from_ns, ns, e->by_floor ? NODE_OWED : NODE_RAN);
        }
        e = p->draining;
        for (size_t n = p->config.concurrency; e && n > 0; n--, e = e->draining_next)
                node_check_quotas(e->node);
}

uint64_t tree_next_drain_end(const Policy *p) {
        return p->draining ? p->draining->drain_until_ns : NSEC_INFINITY;
}
