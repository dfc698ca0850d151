/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Usage of a group that outlives it and the service
 */

#include <time.h>
#include <utlist.h>

#include "account.h"
#include "cgroup/cgroup-path.h"
#include "common/parse-util.h"
#include "group-totals.h"
#include "observer.h"
#include "party.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "usage.h"
#include "user.h"

static uint64_t now_s(void) {
        return (uint64_t) time(NULL);
}

/* --- which entry --- */

/* Returns the unit whose own cgroup the group is. NULL: the group is of none that can be started again. */
static const char *lasting_unit(const Group *g) {
        const char *slash = strrchr(g->name, '/');

        if (g->kind != GROUP_CGROUP || g->name[0] != '/')
                return NULL;
        if (streq(g->name, "/"))
                return "-.slice";
        if (cgroup_path_trusted(g->name) != strlen(g->name))
                return NULL;
        return endswith(slash, ".service") || endswith(slash, ".slice") ? slash + 1 : NULL;
}

static bool has_entry(const Group *g) {
        return g->name[0] == '/' || g->kind == GROUP_JOB;
}

void group_totals_join(Group *g) {
        const char *unit = lasting_unit(g);
        TotalsSlot *s = has_entry(g) ? totals_get(&g->manager->totals, unit ?: g->name, unit) : NULL;

        if (!s)
                return;
        g->totals = s;
        g->usage = (PolicyUsage){
                        .run_ns = s->run_ns,
                        .kept_ns = s->kept_ns,
                        .wait_ns = s->wait_ns,
                        .drain_wait_ns = s->drain_wait_ns,
                        .n_preempted = s->n_preempted,
        };
        g->service_wait_ns = s->service_wait_ns;
        g->gone_run_ns = s->below_ns;
        g->told_run_ns = s->run_ns + s->below_ns; /* a group above has counted that */
        g->gone_source = (AccountSource) s->source;
        g->born = g->usage;
}

/* --- saving --- */

void entity_save_totals(Entity *e, const PolicyUsage *u) {
        uint64_t run_ns = ns_sub(u->run_ns, e->saved.run_ns);
        TotalsSlot *s = e->group->totals;
        if (s) {
                s->run_ns += run_ns;
                s->kept_ns += ns_sub(u->kept_ns, e->saved.kept_ns);
                s->wait_ns += ns_sub(u->wait_ns, e->saved.wait_ns);
                s->drain_wait_ns += ns_sub(u->drain_wait_ns, e->saved.drain_wait_ns);
                s->n_preempted += ns_sub(u->n_preempted, e->saved.n_preempted);
                s->service_wait_ns += ns_sub(e->service_wait_ns, e->saved_service_wait_ns);
                if (account_entity_source(e) != ACCOUNT_NONE)
                        s->source = account_entity_source(e);
        }
        for (Group *above = run_ns > 0 ? e->group->parent : NULL; above; above = above->parent)
                if (above->totals)
                        above->totals->below_ns += run_ns;
        e->saved = *u;
        e->saved_service_wait_ns = e->service_wait_ns;
}

/* --- the end of a group --- */

static void log_end(const Group *g, const PolicyUsage *u) {
        char run[FORMAT_NSEC_MAX], wait[FORMAT_NSEC_MAX];
        const LogUsage usage = {
                        .unit = g->unit,
                        .source = account_source_to_string(g->gone_source),
                        .run_us = u->run_ns / NSEC_PER_USEC,
                        .kept_us = u->kept_ns / NSEC_PER_USEC,
                        .wait_us = u->wait_ns / NSEC_PER_USEC,
                        .n_preempted = u->n_preempted,
        };

        log_event(LOG_INFO, MESSAGE_GROUP_ENDED, LOG_FIELDS(.group = g->name, .usage = &usage),
                        "%s ran on GPUs for %s, and waited for %s", g->name,
                        format_nsec(run, sizeof(run), u->run_ns - u->run_ns % NSEC_PER_USEC),
                        format_nsec(wait, sizeof(wait), u->wait_ns - u->wait_ns % NSEC_PER_USEC));
}

void group_totals_leave(Group *g) {
        Manager *m = g->manager;
        const PolicyUsage life = {
                        .run_ns = ns_sub(g->usage.run_ns, g->born.run_ns),
                        .kept_ns = ns_sub(g->usage.kept_ns, g->born.kept_ns),
                        .wait_ns = ns_sub(g->usage.wait_ns, g->born.wait_ns),
                        .n_preempted = ns_sub(g->usage.n_preempted, g->born.n_preempted),
        };

        if (m->stopping)
                return; /* the group lives on in the next service, and keeps its entry */
        /* A group that used nothing gets no record; records are limited by the budget of the group's user. */
        if ((life.run_ns > 0 || life.wait_ns > 0) && user_may_log(m, g->owner == PARTY_SEVERAL ? 0 : (uid_t) g->owner))
                log_end(g, &life);
        if (g->totals)
                totals_leave(&m->totals, TAKE_PTR(g->totals), now_s());
}

static bool group_is_there(const char *name, void *userdata) {
        const Manager *m = userdata;
        Group *g;

        HASH_FIND_STR(m->groups, name, g);
        return g;
}

void totals_settle(Manager *m) {
        if (m->totals.map)
                totals_gc(&m->totals, group_is_there, m);
}

static void save_entities(Device *d, uint64_t now) {
        PolicyUsage u;
        Entity *e;

        DL_FOREACH2(d->entities, e, device_next)
                entity_usage(e, now, &u);
}

void device_save_totals(Device *d, uint64_t now) {
        d->saved_at = now;
        save_entities(d, now);
        observers_totals_saved(d->manager, now);
}

void totals_save(Manager *m) {
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp)
                save_entities(d, now_ns());
}
