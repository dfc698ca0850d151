/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Accounts which entities have the device, to which of them time is charged, and how the device as a whole was used
 *
 * Entities whose time may change its kind without an event of their own are in short lists: the granted ones, those
 * that drain, and those that the device is kept for. They are settled at every step of time, all others when their own
 * state changes.
 */

#include <utlist.h>

#include "drain.h"
#include "keep.h"
#include "node.h"
#include "usage.h"

/* --- whose the device is --- */

bool entity_has_tail(const PolicyEntity *e) {
        const Policy *p = e->policy;
        const PolicyEntity *d = p->draining;

        if (!e->draining)
                return false;
        for (size_t n = p->config.concurrency; d && d != e && n > 1; n--)
                d = d->draining_next;
        return d == e;
}

size_t core_n_blocked(const Policy *p) {
        size_t n_tails = MIN(p->n_draining, (size_t) p->config.concurrency), n = n_tails;
        const PolicyEntity *e;

        if (n_tails == 0)
                return 0;
        DL_FOREACH2(p->granted, e, granted_next)
                n += e->ready;
        return MIN(ns_sub(n, p->config.concurrency), n_tails);
}

bool entity_is_blocked(const PolicyEntity *e) {
        size_t n = core_n_blocked(e->policy);
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

bool core_is_wanted(const Policy *p) {
        uint32_t places = p->root.places + (p->turn ? p->turn->fair.places : 0);

        return places > p->root.n_chosen;
}

/* --- accounts --- */

static bool entity_is_kept_for(const PolicyEntity *e) {
        const Policy *p = e->policy;

        return (e->kept || (p->lingering && p->linger == e)) && core_is_wanted(p);
}

/* Adds `ns` in the entity's present state. */
static void entity_add_usage(const PolicyEntity *e, uint64_t ns, PolicyUsage *u) {
        const Policy *p = e->policy;
        bool runs = e->ready && e->grant.verdict == VERDICT_RUN;

        if (!e->ready && !e->draining) {
                if ((e->kept || p->lingering) && entity_is_kept_for(e))
                        u->kept_ns += ns;
        } else if (runs ? !p->draining || !entity_is_blocked(e) : e->draining && entity_has_tail(e))
                u->run_ns += ns;
        else if (e->ready) {
                u->wait_ns += ns;
                if (runs || e->awaits_tail)
                        u->drain_wait_ns += ns;
        }
}

PolicyUsage entity_usage_at(const PolicyEntity *e, uint64_t now_ns) {
        PolicyUsage u = e->usage;

        entity_add_usage(e, ns_sub(now_ns, e->accounted_ns), &u);
        return u;
}

void entity_settle(PolicyEntity *e, uint64_t until_ns) {
        if (until_ns > e->accounted_ns)
                entity_add_usage(e, until_ns - e->accounted_ns, &e->usage);
        e->accounted_ns = until_ns;
}

static bool core_is_busy(const Policy *p) {
        const PolicyEntity *e;

        DL_FOREACH2(p->granted, e, granted_next)
                if (e->ready)
                        return true;
        return p->draining;
}

PolicyDeviceUsage core_usage_at(const Policy *p, uint64_t now_ns) {
        PolicyDeviceUsage u = p->usage;
        uint64_t ns = ns_sub(now_ns, p->now_ns);

        if (p->n_entities == 0)
                return u;
        if (core_is_busy(p))
                u.busy_ns += ns;
        else if (core_is_wanted(p))
                u.kept_ns += ns;
        else
                u.idle_ns += ns;
        return u;
}

/* An entity that waits to drain is settled when it moves up. */
void core_account(Policy *p, uint64_t until_ns) {
        PolicyEntity *e;
        size_t n = p->config.concurrency;

        p->usage = core_usage_at(p, until_ns);
        DL_FOREACH2(p->granted, e, granted_next)
                entity_settle(e, until_ns);
        for (e = p->draining; e && n > 0; e = e->draining_next, n--)
                entity_settle(e, until_ns);
}
