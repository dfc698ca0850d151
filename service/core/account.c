/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How run time is counted while no other entity contends: the entity is watched for a small part of the time only
 */

#include <utlist.h>

#include "account-driver.h"
#include "account.h"
#include "turn.h"
#include "usage.h"

/* An entity that ran for this part of a window counts as running. */
#define SEEN_PART 0.1

static uint64_t random_next(uint64_t *state) {
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

/* How long not to watch: ACCOUNT_REST times the watched span (which is longer than planned where the service is late),
 * times a random factor between one half and one and a half, so that no client can foresee the next window. */
static uint64_t away_time(DeviceAccount *a, uint64_t now) {
        uint64_t rest = ns_sub(now, a->watched_since) * ACCOUNT_COST_SHARE;
        uint64_t mean = CLAMP(rest + rest / 7, ACCOUNT_AWAY_NS, ACCOUNT_AWAY_MAX_NS);

        if (a->random == 0)
                a->random = now;
        return mean / 2 + random_next(&a->random) % mean;
}

/* --- of entities and groups --- */

static bool is_lone(const Entity *e) {
        switch (e->device->state) {
        case DEVICE_ALONE:
                return e->counted;
        case DEVICE_SOLE:
                return e->told_ready;
        default:
                return false;
        }
}

static Entity *lone_entity(const Device *d) {
        Entity *e;

        if (d->state != DEVICE_ALONE && d->state != DEVICE_SOLE)
                return NULL;
        DL_FOREACH2(d->entities, e, device_next)
                if (is_lone(e))
                        return e;
        return NULL;
}

static Accounting entity_accounting(const Entity *e) {
        return accounting_combine(e->group->resolved.accounting, e->device->tuning.accounting);
}

static uint64_t entity_launches(const Entity *e) {
        const Queue *q;
        uint64_t n = 0;

        DL_FOREACH2(e->queues, q, entity_next)
                n += atomic_load_explicit(&q->page_slot->submitted, memory_order_relaxed);
        return n;
}

/* --- phases --- */

/* Run time that is estimated beyond what the policy has counted. */
static int64_t estimated(const Entity *e, uint64_t now) {
        return estimate_beyond(&e->estimate, now, entity_counted(e, now));
}

static void come_back(DeviceAccount *a, uint64_t now) {
        Entity *e = a->away;

        a->estimated_ns += estimated(e, now) - a->away_estimated_ns;
        estimate_return(&e->estimate, now, entity_counted(e, now));
        a->away = NULL;
}

static void set_phase(Device *d, AccountPhase phase, uint64_t now) {
        DeviceAccount *a = &d->account;

        if (a->phase == phase)
                return;
        a->phase = phase;
        a->at = NSEC_INFINITY;
        a->led = false;
        a->look_ns = ACCOUNT_LOOK_NS;
        if (a->away)
                come_back(a, now);
        d->sync = true;
}

static void begin_counts(DeviceAccount *a, const Entity *e, uint64_t now) {
        a->since = now;
        a->launches = entity_launches(e);
        a->edges_seen = a->edges;
}

/* By the launches and looks since begin_counts(). */
static bool is_cheap(const DeviceAccount *a, uint64_t n_launches, uint64_t now) {
        uint64_t cost = n_launches * ACCOUNT_LAUNCH_NS + (a->edges - a->edges_seen) * ACCOUNT_EDGE_NS;

        return cost <= ns_sub(now, a->since) / ACCOUNT_COST_SHARE;
}

/* The driver's answer. Ignored unless the entity is still the one that is away. */
static void on_answer(Device *d, Entity *e, uint64_t span_ns, uint64_t ran_ns) {
        DeviceAccount *a = &d->account;
        uint64_t now = now_ns();

        if (a->away != e)
                return;
        if (span_ns > 0) {
                estimate_driver(&e->estimate, now, entity_counted(e, now), span_ns, ran_ns);
                a->source = ACCOUNT_DRIVER;
        }
        /* No edges and no answer: look at once whether there is anything to do at all. */
        if (!account_driver_counts(d))
                a->at = now;
        device_touch(d);
}

static void go_away(Device *d, Entity *e, uint64_t now) {
        DeviceAccount *a = &d->account;

        set_phase(d, ACCOUNT_AWAY, now);
        estimate_leave(&e->estimate, now, entity_counted(e, now));
        a->away = e;
        a->away_estimated_ns = estimated(e, now);
        a->source = ACCOUNT_SAMPLED;
        a->at = now + away_time(a, now);
        if (entity_accounting(e) == ACCOUNTING_AUTO) {
                if (e->estimate.part > SEEN_PART)
                        account_driver_seen(d, now);
                account_driver_ask(d, e, now, on_answer);
        }
}

/* Ends a window, or takes one look at an entity that stays watched. */
static void look(Device *d, Entity *e, uint64_t now) {
        DeviceAccount *a = &d->account;
        uint64_t launches = entity_launches(e), n = launches - a->launches;
        /* The count comes from the client. If it has gone down, take it as no launch; a client that lies loses only its
         * own watch. */
        bool launched = launches > a->launches;

        int64_t before = estimated(e, now);
        estimate_settle(&e->estimate, now, entity_counted(e, now));
        a->estimated_ns += estimated(e, now) - before;
        if (launched && !is_cheap(a, MIN(n, NSEC_PER_SEC), now)) {
                go_away(d, e, now);
                return;
        }
        a->source = ACCOUNT_TRACKED;
        a->look_ns = launched ? ACCOUNT_LOOK_NS : MIN(a->look_ns * 2, ACCOUNT_LOOK_MAX_NS);
        a->at = launched || e->told_ready ? now + a->look_ns : NSEC_INFINITY;
        a->watched_since = now; /* so far it was cheap */
        begin_counts(a, e, now);
}

static void turn_watched(Device *d, Entity *e, uint64_t now) {
        DeviceAccount *a = &d->account;

        if (a->at == NSEC_INFINITY) {
                if (!e->told_ready)
                        return;
                a->led = false;
                a->watched_since = now;
                a->at = now + ACCOUNT_LEAD_NS;
        }
        if (now < a->at)
                return;
        if (a->led) {
                look(d, e, now);
                return;
        }
        a->led = true;
        a->at = now + ACCOUNT_WINDOW_NS;
        estimate_mark(&e->estimate, now, entity_counted(e, now));
        begin_counts(a, e, now);
}

/* Asks the driver. Returns whether its answer takes the place of a window. */
static bool turn_driver(Device *d, Entity *e, uint64_t now) {
        DeviceAccount *a = &d->account;

        if (entity_accounting(e) != ACCOUNTING_AUTO || !account_driver_counts(d))
                return false;
        a->source = ACCOUNT_DRIVER;
        a->at = now + ACCOUNT_DRIVER_NS;
        account_driver_ask(d, e, now, on_answer);
        return true;
}

void account_turn(Device *d, uint64_t now) {
        Entity *e = lone_entity(d);
        Accounting how = e ? entity_accounting(e) : ACCOUNTING_OFF;
        DeviceAccount *a = &d->account;

        if (a->away && a->away != e)
                set_phase(d, ACCOUNT_REST, now);
        if (how == ACCOUNTING_OFF) {
                set_phase(d, ACCOUNT_REST, now);
                a->source = ACCOUNT_NONE;
                return;
        }
        if (a->phase == ACCOUNT_AWAY && now >= a->at && turn_driver(d, e, now))
                return;
        if (a->phase == ACCOUNT_REST || (a->phase == ACCOUNT_AWAY && (how == ACCOUNTING_EXACT || now >= a->at))) {
                if (a->phase == ACCOUNT_REST)
                        a->source = ACCOUNT_TRACKED;
                bool was_away = a->phase == ACCOUNT_AWAY;
                set_phase(d, ACCOUNT_WATCHED, now);
                if (was_away) {
                        a->watched_since = now;
                        a->at = now + ACCOUNT_LEAD_NS;
                }
        }
        if (how == ACCOUNTING_EXACT) {
                a->source = ACCOUNT_TRACKED;
                a->at = NSEC_INFINITY;
        } else if (a->phase == ACCOUNT_WATCHED)
                turn_watched(d, e, now);
}

void account_state_changed(Device *d, uint64_t now) {
        const Entity *e = lone_entity(d);

        /* Goes through REST, which drops the counts that were made in the former state. */
        set_phase(d, ACCOUNT_REST, now);
        if (e && entity_accounting(e) != ACCOUNTING_OFF) {
                set_phase(d, ACCOUNT_WATCHED, now);
                d->account.source = ACCOUNT_TRACKED;
        }
}

void account_forget(Entity *e, uint64_t now) {
        if (e->device->account.away == e)
                set_phase(e->device, ACCOUNT_REST, now);
}

void account_device_usage(Device *d, uint64_t now, PolicyDeviceUsage *u) {
        DeviceAccount *a = &d->account;
        const Entity *e = lone_entity(d);
        int64_t ns = a->estimated_ns + (a->away ? estimated(a->away, now) - a->away_estimated_ns : 0);

        if (e)
                ns += (int64_t) estimate_ahead(&e->estimate, now, entity_counted(e, now));

        /* Moves time from idle to busy or back, at most as much as there is. */
        ns = CLAMP(ns, -(int64_t) u->busy_ns, (int64_t) u->idle_ns);

        uint64_t busy_ns = u->busy_ns + (uint64_t) ns, handover_ns = MIN(d->handover_ns, busy_ns);
        busy_ns -= handover_ns;
        a->told_busy_ns = MAX(a->told_busy_ns, busy_ns);
        u->busy_ns = a->told_busy_ns;
        u->kept_ns += ns_sub(handover_ns, a->told_busy_ns - busy_ns);
        u->kept_ns = a->told_kept_ns = MAX(a->told_kept_ns, u->kept_ns);
        u->idle_ns = a->told_idle_ns = MAX(a->told_idle_ns, u->idle_ns - (uint64_t) ns);
}

/* --- how --- */

AccountSource account_entity_source(const Entity *e) {
        if (!e->policy)
                return ACCOUNT_NONE;
        return is_lone(e) ? e->device->account.source : ACCOUNT_TRACKED;
}

AccountSource account_group_source(const Group *g) {
        AccountSource source = g->entities ? ACCOUNT_NONE : g->gone_source;
        const Group *below;
        const Entity *e;

        DL_FOREACH2(g->entities, e, group_next)
                source = MAX(source, account_entity_source(e));
        DL_FOREACH2(g->children, below, children_next)
                source = MAX(source, account_group_source(below));
        return source;
}
