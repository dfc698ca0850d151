/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The k earliest deadlines first (KEDF)
 *
 * An entity with a deadline (PolicySettings.deadline_us) is to be done that long after it becomes ready. The k entities
 * with the earliest deadlines run, k being the places of the device, each until it is idle or an earlier deadline
 * comes. With one place this is Liu and Layland's deadline driven scheduling (1973), which meets all deadlines that can
 * be met (Dertouzos, 1974). With k places it does not, but where fluid scheduling is never late it is late by at most
 * the longest piece of work (Baruah and Goossens; Devi and Anderson, "Tardiness Bounds under Global EDF", 2005).
 * XSched's KEDF is the same rule.
 *
 * Entities without a deadline are on a level below, and share among themselves over the tree, all with the same weight.
 * The device is not kept for an entity with a deadline: it comes back with a later deadline. Each device has its own k.
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
