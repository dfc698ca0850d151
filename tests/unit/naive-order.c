/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's orderings: who is next where fair queues do not say it. Everybody who could run is looked at, and the
 * ones with the lowest ranks are next.
 */

#include "naive-fair.h"
#include "policy-naive.h"

__extension__ typedef __int128 wide_t;

struct NaiveOrdering {
        const char *name;
        bool keeps, feedback;
        void (*told)(PolicyEntity *e);
        void (*comes)(PolicyEntity *e);
        void (*goes)(PolicyEntity *e);
        void (*ran)(PolicyEntity *e, uint64_t ns);
        void (*asked)(PolicyEntity *e);
};

/* --- the orderings --- */

static void told_priority(PolicyEntity *e) {
        e->level = e->settings.priority;
}

static void told_cpu_priority(PolicyEntity *e) {
        e->level = e->settings.cpu_priority;
}

static void told_active(PolicyEntity *e) {
        e->level = e->settings.active;
}

/* kedf: when it is to be done; those who need not be come after all times. */
static void deadline(PolicyEntity *e) {
        uint64_t in = e->settings.deadline_us * UINT64_C(1000);

        e->level = 0;
        e->rank = in > 0 ? e->here_since + in : UINT64_MAX / 2;
        e->slice = in > 0 ? NSEC_INFINITY : e->p->config.timeslice_ns;
}

/* lax: one of two priorities, by the time since it came. */
static void laxity(PolicyEntity *e) {
        uint64_t until = e->here_since + e->settings.laxity_us * UINT64_C(1000);
        bool counts = e->here && e->settings.laxity_us > 0, critical = counts && e->p->now >= until;

        e->level = critical && e->settings.critical > e->settings.priority ? e->settings.critical
                                                                           : e->settings.priority;
        e->alarm = counts && !critical ? until : NSEC_INFINITY;
}

/* mlfq: how far down it is, and since when. */
static void sink(PolicyEntity *e, int by) {
        e->down += by;
        e->level = -e->down;
        e->slice = e->p->config.timeslice_ns * (UINT64_C(1) << e->down);
        e->slice = e->slice > e->used ? e->slice - e->used : 1;
        e->alarm = e->here && e->down > 0 ? e->down_since + NSEC_PER_SEC : NSEC_INFINITY;
}

static void rise(PolicyEntity *e) {
        sink(e, 0);
        if (e->down > 0 && e->p->now >= e->down_since + NSEC_PER_SEC) {
                e->used = 0;
                sink(e, -e->down);
        }
}

static void stays(PolicyEntity *e) {
        sink(e, 0);
}

static void uses(PolicyEntity *e, uint64_t ns) {
        e->used += ns;
}

static void sinks(PolicyEntity *e) {
        uint64_t slice;

        while (e->down < 4 && e->used >= (slice = e->p->config.timeslice_ns * (UINT64_C(1) << e->down))) {
                e->used -= slice;
                e->down++;
                e->down_since = e->p->now;
        }
        if (e->down == 4)
                e->used = 0;
        rise(e);
}

/* cfs and up: all that it was served under its weight, and where it began with that. */
static uint64_t virtual_time(const PolicyEntity *e) {
        return e->v_begin + (uint64_t) ((wide_t) e->served * 10000 / (wide_t) e->v_weight);
}

static void set_weight(PolicyEntity *e, uint64_t weight) {
        if (weight == e->v_weight)
                return;
        if (e->v_weight > 0)
                e->v_begin = virtual_time(e);
        e->served = 0;
        e->v_weight = weight;
}

static void serves(PolicyEntity *e, uint64_t ns) {
        uint64_t began;

        e->served += MIN(ns, UINT64_C(1) << 48);
        began = virtual_time(e) - (uint64_t) ((wide_t) e->slice * 10000 / (wide_t) e->v_weight);
        if ((int64_t) (began - e->p->v_clock) > 0)
                e->p->v_clock = began;
}

static void catches_up(PolicyEntity *e) {
        uint64_t v = virtual_time(e);

        if ((int64_t) (e->p->v_clock - v) > 0)
                e->v_begin += e->p->v_clock - v;
        e->rank = virtual_time(e);
}

/* The remainder of a division by 5/4, and so on, is dropped step by step. */
static void fair_part(PolicyEntity *e) {
        uint64_t w = (uint64_t) CLAMP(e->settings.weight, 1U, 10000U) * 1024;

        for (int i = 0; i < MIN(e->settings.priority, 19); i++)
                w = w * 5 / 4;
        for (int i = 0; i > MAX(e->settings.priority, -20); i--)
                w = w * 4 / 5;
        e->level = 0;
        e->slice = e->p->config.timeslice_ns;
        set_weight(e, MAX(w / 1024, (uint64_t) 1));
}

static void fair_asked(PolicyEntity *e) {
        e->slice = e->p->config.timeslice_ns;
        e->rank = virtual_time(e);
}

static void fixed_part(PolicyEntity *e) {
        uint32_t percent = CLAMP(e->settings.utilization, 1U, 100U);

        e->level = 0;
        e->slice = MAX(e->p->config.timeslice_ns * percent / 100, (uint64_t) 1);
        set_weight(e, percent);
}

static void fixed_asked(PolicyEntity *e) {
        fixed_part(e);
        e->rank = virtual_time(e);
}

#define PARTS .keeps = true, .told = fixed_part, .comes = catches_up, .ran = serves, .asked = fixed_asked
static const NaiveOrdering orderings[] = {
                {.name = "hpf", .told = told_priority},
                {.name = "hhpf", .told = told_priority},
                {.name = "chpf", .told = told_cpu_priority},
                {.name = "awf", .told = told_active},
                {.name = "kedf", .told = deadline, .comes = deadline, .asked = deadline},
                {.name = "lax", .told = laxity, .comes = laxity, .goes = laxity, .asked = laxity},
                {.name = "mlfq",
                                .feedback = true,
                                .told = stays,
                                .comes = rise,
                                .goes = stays,
                                .ran = uses,
                                .asked = sinks},
                {.name = "cfs",
                                .keeps = true,
                                .told = fair_part,
                                .comes = catches_up,
                                .ran = serves,
                                .asked = fair_asked},
                {.name = "up", PARTS},
                {.name = "pup", PARTS},
};

void naive_set_ordering(Policy *p, const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(orderings); i++)
                if (streq(orderings[i].name, name))
                        p->ordering = &orderings[i];
}

int naive_level(const PolicyEntity *e) {
        return e->tier + POLICY_PRIORITY_MIN;
}

/* --- what becomes of it --- */

static void ask(PolicyEntity *e, void (*what)(PolicyEntity *e)) {
        if (what)
                what(e);
}

/* The order of alarms that come at once is that in which they were set. */
static void follow(PolicyEntity *e) {
        uint64_t rank = e->rank_in_force;
        int tier = CLAMP(e->level, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;

        if (tier != e->tier)
                naive_change(e, e->node, tier);
        else if (e->m.here && e->rank != rank) {
                e->rank_in_force = e->rank;
                e->turn_order = e->p->order++;
        }
        if (e->alarm != e->alarm_in_force) {
                e->alarm_in_force = e->alarm;
                e->alarm_order = e->p->order++;
        }
}

void naive_order_begin(PolicyEntity *e) {
        e->alarm = e->alarm_in_force = NSEC_INFINITY;
        e->slice = e->p->config.timeslice_ns;
        e->level = e->settings.priority;
        if (e->p->ordering)
                ask(e, e->p->ordering->told);
        e->tier = CLAMP(e->level, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;
}

void naive_order_told(PolicyEntity *e) {
        e->level = e->p->ordering ? e->level : e->settings.priority;
        if (e->p->ordering)
                ask(e, e->p->ordering->told);
        follow(e);
}

void naive_order_comes(PolicyEntity *e) {
        e->here = true;
        e->here_since = e->p->now;
        if (!e->p->ordering)
                return;
        ask(e, e->p->ordering->comes);
        follow(e);
}

void naive_order_goes(PolicyEntity *e, bool now) {
        e->here = false;
        if (!e->p->ordering)
                return;
        ask(e, e->p->ordering->goes);
        if (now)
                follow(e);
}

/* Into its queue, behind its equals. */
void naive_order_joins(PolicyEntity *e) {
        e->rank_in_force = e->rank;
        e->turn_order = e->p->order++;
        e->m.left = e->slice;
}

void naive_order_ran(PolicyEntity *e, uint64_t ns) {
        if (e->p->ordering && e->p->ordering->ran)
                e->p->ordering->ran(e, ns);
}

static PolicyEntity *next_chosen(const Policy *p, uint64_t after) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->chosen && e->chosen_order > after && (!best || e->chosen_order < best->chosen_order))
                        best = e;
        return best;
}

void naive_order_advance(Policy *p, uint64_t ns) {
        PolicyEntity *e;

        for (uint64_t after = 0; (e = next_chosen(p, after)); after = e->chosen_order) {
                if (e->blocked)
                        continue;
                if (e->m.left != NSEC_INFINITY)
                        e->m.left = ns_sub(e->m.left, ns);
                naive_order_ran(e, ns);
        }
}

/* --- when it is asked --- */

static size_t n_wanted(const Policy *p) {
        bool counted[NAIVE_TIERS] = {};
        size_t places = p->guaranteed ? naive_places(p->guaranteed, p->turn) : 0;

        FOR_EACH(p, e) {
                if (!counted[e->tier])
                        places += naive_places(&p->root, e->tier);
                counted[e->tier] = true;
        }
        return places;
}

static bool is_wanted(const Policy *p) {
        size_t chosen = 0;

        FOR_EACH(p, e)
                chosen += e->chosen;
        return n_wanted(p) > chosen;
}

static bool is_contended(const PolicyEntity *e) {
        const Policy *p = e->p;

        if (p->ordering->feedback && is_wanted(p))
                return true;
        if (naive_has_turn(e))
                return naive_places(p->guaranteed, p->turn) > 1;
        return naive_places(&p->root, e->tier) > p->slots;
}

static PolicyEntity *next_alarm(const Policy *p) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->alarm_in_force != NSEC_INFINITY &&
                                (!best || e->alarm_in_force < best->alarm_in_force ||
                                                (e->alarm_in_force == best->alarm_in_force &&
                                                                e->alarm_order < best->alarm_order)))
                        best = e;
        return best;
}

bool naive_order_tick(Policy *p) {
        PolicyEntity *e;
        bool any = false;

        if (!p->ordering)
                return false;
        while ((e = next_alarm(p)) && e->alarm_in_force <= p->now) {
                e->alarm = NSEC_INFINITY;
                ask(e, p->ordering->asked);
                follow(e);
                any = true;
        }
        for (uint64_t after = 0; (e = next_chosen(p, after));) {
                after = e->chosen_order;
                if (e->m.left > 0 || !is_contended(e))
                        continue;
                any = true;
                ask(e, p->ordering->asked);
                naive_order_joins(e);
                follow(e);
        }
        return any;
}

uint64_t naive_order_next(const Policy *p) {
        const PolicyEntity *first = next_alarm(p);
        uint64_t next = NSEC_INFINITY;

        FOR_EACH(p, e)
                if (e->chosen && !e->blocked && e->m.left != NSEC_INFINITY && is_contended(e)) {
                        uint64_t t = p->now + e->m.left;

                        next = MIN(next, t);
                }
        if (first && is_wanted(p))
                next = MIN(next, first->alarm_in_force);
        return next;
}

/* --- choosing --- */

static bool is_in(const PolicyEntity *e, const PolicyNode *n, int tier) {
        const PolicyNode *x = e->node;

        if (e->tier != tier || !e->m.here)
                return false;
        for (; x && x != n; x = x->parent)
                if (!x->in[tier].here)
                        return false;
        return x == n;
}

static bool is_before(const PolicyEntity *a, const PolicyEntity *b) {
        int64_t later = (int64_t) (a->rank_in_force - b->rank_in_force);

        return later < 0 || (later == 0 && a->turn_order < b->turn_order);
}

void naive_order_choose(PolicyNode *n, int tier, uint32_t slots) {
        while (slots-- > 0) {
                PolicyEntity *best = NULL;

                FOR_EACH(n->p, e)
                        if (!e->chosen && is_in(e, n, tier) && (!best || is_before(e, best)))
                                best = e;
                if (!best)
                        return;
                best->chosen = true;
                best->chosen_order = n->p->order++;
        }
}

bool naive_order_is_worth_keeping(const PolicyEntity *e) {
        Policy *p = e->p;
        bool turn = naive_has_turn(e);
        const PolicyEntity *best = NULL;
        PolicyNode *n = turn ? p->guaranteed : &p->root;

        if (naive_places(n, e->tier) <= 1)
                return turn || naive_n_ready(p) == 0;
        if (!p->ordering->keeps)
                return false;
        FOR_EACH(p, o)
                if (!o->chosen && is_in(o, n, e->tier) && (!best || is_before(o, best)))
                        best = o;
        return best && (int64_t) (e->rank_in_force - best->rank_in_force) < 0;
}
