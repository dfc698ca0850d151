/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tallies
 */

#include <utlist.h>

#include "group.h"
#include "tally.h"
#include "usage.h"
#include "waits.h"

static int tally_get(Group *g, Device *d, Tally **ret) {
        Tally *t;

        DL_FOREACH2(g->tallies, t, group_next)
                if (t->device == d) {
                        *ret = t;
                        return 0;
                }
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        *t = (Tally){.group = g, .device = d};
        DL_APPEND2(g->tallies, t, group_prev, group_next);
        DL_APPEND2(d->tallies, t, device_prev, device_next);
        *ret = t;
        return 0;
}

int tally_join(Entity *e) {
        Tally *t;

        int r = tally_get(e->group, e->device, &t);
        if (r < 0)
                return r;
        e->tally = t;
        DL_APPEND2(t->entities, e, tally_prev, tally_next);
        return 0;
}

void tally_leave(Entity *e) {
        Tally *t = TAKE_PTR(e->tally);

        DL_DELETE2(t->entities, e, tally_prev, tally_next);
        usage_add(&t->gone, &e->usage);
        t->gone_service_wait_ns += e->service_wait_ns;
}

static void tally_free(Tally *t) {
        DL_DELETE2(t->group->tallies, t, group_prev, group_next);
        DL_DELETE2(t->device->tallies, t, device_prev, device_next);
        free(t);
}

void tallies_free_of_group(Group *g) {
        while (g->tallies)
                tally_free(g->tallies);
}

void tallies_free_of_device(Device *d) {
        while (d->tallies)
                tally_free(d->tallies);
}

static void sum_wait(TallySum *sum, const Entity *e) {
        uint64_t since_ns;

        const char *why = waits_entity(e, &since_ns);
        if (!why)
                return;
        sum->n_held++;
        if (!sum->held_why || (since_ns > 0 && (sum->held_since_ns == 0 || since_ns < sum->held_since_ns))) {
                sum->held_why = why;
                sum->held_since_ns = since_ns;
        }
}

void tally_sum(const Tally *t, uint64_t now, TallySum *ret) {
        Entity *e;
        unsigned n = 0;

        *ret = (TallySum){
                        .usage = t->gone,
                        .service_wait_ns = t->gone_service_wait_ns,
                        .source = t->entities ? ACCOUNT_NONE : t->group->gone_source,
        };
        DL_FOREACH2(t->entities, e, tally_next) {
                PolicyUsage u;

                entity_usage(e, now, &u);
                usage_add(&ret->usage, &u);
                ret->service_wait_ns += e->service_wait_ns;
                ret->n_queues += e->n_queues;
                ret->source = MAX(ret->source, account_entity_source(e));
                if (n++ < TALLY_LOOKED_AT)
                        sum_wait(ret, e);
        }
}
