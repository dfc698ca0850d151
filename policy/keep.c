/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Keeping the device among equals: keep.h has the rules and their reasons.
 */

#include <utlist.h>

#include "keep.h"
#include "node.h"
#include "ordering.h"
#include "place.h"
#include "usage.h"

bool entity_keep_begin(PolicyEntity *e, uint64_t foreseen_ns) {
        Policy *p = e->policy;
        uint64_t wait_ns = patience_begin_gap(&e->patience, foreseen_ns, p->config.linger_ns);

        if (!e->chosen || e->grant.verdict != VERDICT_RUN || wait_ns == 0)
                return false;
        e->kept = true;
        e->kept_until_ns = ns_add(p->now_ns, wait_ns);
        DL_APPEND2(p->kept, e, kept_prev, kept_next);
        return true;
}

void entity_keep_back(PolicyEntity *e) {
        e->kept = false;
        DL_DELETE2(e->policy->kept, e, kept_prev, kept_next);
}

void entity_keep_drop(PolicyEntity *e) {
        entity_account(e);
        entity_keep_back(e);
        entity_unchoose(e);
        entity_leave(e);
        entity_dequeue(e);
}

void entity_keep_end(PolicyEntity *e) {
        if (!e->kept)
                return;
        entity_keep_drop(e);
        entity_follow(e);
}

/* Whether the division would suffer if the entity lost its place: weights differ, or it is owed more than a slice. */
static bool entity_would_lose(PolicyEntity *e, FairQueue *q, const FairNode *n) {
        int64_t lag = fair_queue_lag(q, n);

        if (lag > (int64_t) e->policy->config.timeslice_ns)
                e->behind = true;
        else if (lag <= 0)
                e->behind = false;
        return e->behind || !fair_queue_is_even(q);
}

/* For ranked entities, which get another rank when they come back: an entity is kept while it delays no other of its
 * tier, or of the turn that it has. */
static bool entity_is_worth_keeping_ranked(PolicyEntity *e) {
        Policy *p = e->policy;
        const Branch *b = e->branch;

        while (b->parent && b != p->turn)
                b = b->parent;
        return b->fair.places <= 1 && (b == p->turn || p->n_ready == 0);
}

static bool entity_is_worth_keeping(PolicyEntity *e) {
        Policy *p = e->policy;
        const FairNode *n = &e->fair;

        if (e->branch->tier->ranked)
                return entity_is_worth_keeping_ranked(e);

        for (Branch *b = e->branch; b; n = &b->self, b = b->parent) {
                if (b->fair.places > n->places)
                        return entity_would_lose(e, &b->fair, n);
                if (b == p->turn)
                        return true;
        }
        return p->n_ready == 0; /* no entity wants it; whether lower tiers are kept from it, `linger` decides */
}

/* An entity that leaves may have been the reason to keep another. */
bool core_review_kept(Policy *p) {
        PolicyEntity *e = p->kept;
        bool any = false;

        while (e)
                if (p->now_ns >= e->kept_until_ns || node_is_stopped(e->node) || !entity_is_worth_keeping(e)) {
                        entity_keep_end(e);
                        any = true;
                        e = p->kept;
                } else
                        e = e->kept_next;
        return any;
}

bool core_drop_kept(Policy *p) {
        PolicyEntity *e, *next;
        bool any = false;

        DL_FOREACH_SAFE2(p->kept, e, next, kept_next)
                if (!e->chosen) {
                        entity_keep_end(e);
                        any = true;
                }
        return any;
}

uint64_t core_next_keep_end(const Policy *p) {
        uint64_t next = NSEC_INFINITY;
        const PolicyEntity *e;

        if (!core_is_wanted(p))
                return NSEC_INFINITY;
        DL_FOREACH2(p->kept, e, kept_next)
                next = MIN(next, e->kept_until_ns);
        return next;
}
