/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The k earliest deadlines first (KEDF)
 *
 * Who becomes ready, and has a deadline (PolicySettings.deadline_us), is to be done so long after; the k entities with
 * the earliest deadlines run, k being the places of the device, and each until it has nothing to do or an earlier
 * deadline comes. On one place that is Liu and Layland's deadline driven scheduling (1973), which meets all deadlines
 * that can be met (Dertouzos, 1974). On k it does not, but it is never late by more than the longest piece of work
 * where fluid scheduling is not (Baruah and Goossens; Devi and Anderson, "Tardiness Bounds under Global EDF", 2005);
 * XSched's KEDF is the same rule.
 *
 * Who has none is on a level below all who have, and shares with his like over the tree, all weighing the same. For who
 * has one no device is kept: he is back with a later deadline than he had. Each device has its own k earliest.
 */

#include "core.h"

static void kedf_rank(Order *o, OrderEntity *e) {
        uint64_t deadline_ns = e->settings->deadline_us * NSEC_PER_USEC;

        e->level = deadline_ns > 0 ? 1 : 0;
        e->rank = e->since_ns + deadline_ns;
}

static void kedf_enqueue(Order *o, OrderEntity *e) {
        e->since_ns = o->now_ns;
        kedf_rank(o, e);
}

DEFINE_POLICY(kedf, "The earliest deadlines first; those without one take turns behind them", .ranked = true,
                .hint = kedf_rank, .enqueue = kedf_enqueue);
