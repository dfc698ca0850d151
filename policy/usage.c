/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Accounting: whose time it was, entity by entity, and of the device as a whole
 */

#include <utlist.h>

#include "node.h"

PolicyUsage entity_usage_at(const PolicyEntity *e, uint64_t now_ns) {
        PolicyUsage u = e->usage;

        if (!e->ready)
                return u;
        if (e->grant.verdict == VERDICT_RUN)
                u.run_ns += ns_sub(now_ns, e->accounted_ns);
        else
                u.wait_ns += ns_sub(now_ns, e->accounted_ns);
        return u;
}

void entity_account(PolicyEntity *e) {
        e->usage = entity_usage_at(e, e->policy->now_ns);
        e->accounted_ns = e->policy->now_ns;
}

/* Whoever is granted is in one short list. */
static bool tree_is_busy(const Policy *p) {
        const PolicyEntity *e;

        DL_FOREACH2(p->granted, e, granted_next)
                if (e->ready)
                        return true;
        return false;
}

PolicyDeviceUsage tree_usage_at(const Policy *p, uint64_t now_ns) {
        PolicyDeviceUsage u = p->usage;
        uint64_t ns = ns_sub(now_ns, p->now_ns);

        if (p->n_entities == 0)
                return u;
        if (tree_is_busy(p))
                u.busy_ns += ns;
        else if (tree_highest((Policy *) p, &p->with_places))
                u.kept_ns += ns;
        else
                u.idle_ns += ns;
        return u;
}
