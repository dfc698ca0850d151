/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Usage of entities and groups
 */

#include <utlist.h>

#include "client.h"
#include "group-totals.h"
#include "overlaps.h"
#include "usage.h"

void usage_add(PolicyUsage *sum, const PolicyUsage *add) {
        sum->run_ns += add->run_ns;
        sum->kept_ns += add->kept_ns;
        sum->wait_ns += add->wait_ns;
        sum->drain_wait_ns += add->drain_wait_ns;
        sum->n_preempted += add->n_preempted;
}

static void counted_usage(const Entity *e, uint64_t now, PolicyUsage *ret) {
        *ret = e->usage;
        if (e->policy) {
                PolicyUsage u;
                overlaps_look(e->device, now);
                e->device->ops->entity_usage(e->policy, now, &u);
                usage_add(ret, &u);
        }
        ret->run_ns = ns_sub(ret->run_ns, e->handover_ns);
}

uint64_t entity_counted(const Entity *e, uint64_t now) {
        PolicyUsage u;

        counted_usage(e, now, &u);
        return u.run_ns;
}

void entity_usage(Entity *e, uint64_t now, PolicyUsage *ret) {
        counted_usage(e, now, ret);

        uint64_t counted_ns = ret->run_ns;
        ret->run_ns = estimate_tell(&e->estimate, now, counted_ns);
        /* Run time that was told once is not taken back. */
        ret->kept_ns += ns_sub(e->handover_ns, estimate_ahead(&e->estimate, now, counted_ns));
        ret->kept_ns = e->told_kept_ns = MAX(e->told_kept_ns, ret->kept_ns);
        entity_save_totals(e, ret);
}

void group_usage(const Group *g, uint64_t now, PolicyUsage *ret) {
        Entity *e;

        *ret = g->usage;
        DL_FOREACH2(g->entities, e, group_next) {
                PolicyUsage u;
                entity_usage(e, now, &u);
                usage_add(ret, &u);
        }
}

uint64_t group_service_wait(const Group *g) {
        uint64_t ns = g->service_wait_ns;
        const Entity *e;

        DL_FOREACH2(g->entities, e, group_next)
                ns += e->service_wait_ns;
        return ns;
}

uint64_t group_gpu_time(const Group *g, uint64_t now) {
        const Group *below;
        PolicyUsage u;

        group_usage(g, now, &u);
        uint64_t ns = u.run_ns + g->gone_run_ns;
        DL_FOREACH2(g->children, below, children_next)
                ns += group_gpu_time(below, now) - below->told_run_ns;
        return ns;
}
