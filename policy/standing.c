/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Standing grants: standing.h has the rules and their reasons.
 */

#include <utlist.h>

#include "standing.h"

/* The latest grant is the first. */
static int compare(const PolicyEntity *a, const PolicyEntity *b) {
        return a->grant_seq > b->grant_seq ? -1 : 1;
}

void entity_stand(PolicyEntity *e) {
        Policy *p = e->policy;

        DL_DELETE2(p->granted, e, granted_prev, granted_next);
        DL_PREPEND2(p->standing, e, granted_prev, granted_next);
        e->stands = true;
        p->n_standing++;
}

void entity_stand_end(PolicyEntity *e) {
        Policy *p = e->policy;

        if (!e->stands)
                return;
        e->stands = false;
        p->n_standing--;
        DL_DELETE2(p->standing, e, granted_prev, granted_next);
        DL_INSERT_INORDER2(p->granted, e, compare, granted_prev, granted_next);
}

void core_standing_end(Policy *p) {
        PolicyEntity *e;

        if (!p->standing)
                return;
        DL_FOREACH2(p->standing, e, granted_next)
                e->stands = false;
        DL_CONCAT2(p->granted, p->standing, granted_prev, granted_next);
        DL_SORT2(p->granted, compare, granted_prev, granted_next);
        p->standing = NULL;
        p->n_standing = 0;
}

PolicyEntity *core_longest_standing(const Policy *p) {
        return p->standing ? p->standing->granted_prev : NULL;
}

void core_note_crowd(Policy *p, Tier *top, bool contends) {
        uint64_t ns = p->now_ns - p->crowd.at_ns;

        p->crowd.at_ns = p->now_ns;
        p->crowd.ns = ns_sub(p->crowd.ns + (p->crowd.contends ? ns : 0), ns / POLICY_CROWD_PART);
        p->crowd.ns = MIN(p->crowd.ns, 2 * POLICY_CROWD_NS);
        if (top && top != p->crowd.tier) {
                p->crowd.tier = top;
                p->crowd.ns = 0;
        }
        p->crowd.contends = contends;
        if (top && contends && p->crowd.ns >= POLICY_CROWD_NS)
                top->crowded_until_ns = ns_add(p->now_ns, CORE_RECENT_NS);
}

bool tier_lets_stand(const Tier *t) {
        return t->n_entities > POLICY_ADVANCE_MAX && t->root.node->policy->now_ns >= t->crowded_until_ns;
}
