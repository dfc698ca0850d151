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

static const NaiveOrdering orderings[] = {
                {.name = "hpf", .told = told_priority},
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

        if (e->alarm != e->alarm_in_force) {
                e->alarm_in_force = e->alarm;
                e->alarm_order = e->p->order++;
        }
        if (tier != e->tier) {
                naive_change(e, e->node, tier);
                return;
        }
        if (e->m.here && e->rank != rank) {
                e->rank_in_force = e->rank;
                e->turn_order = e->p->order++;
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
        e->here_since = e->p->now;
        if (!e->p->ordering)
                return;
        ask(e, e->p->ordering->comes);
        follow(e);
}

void naive_order_goes(PolicyEntity *e, bool now) {
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
        return a->rank_in_force < b->rank_in_force ||
                        (a->rank_in_force == b->rank_in_force && a->turn_order < b->turn_order);
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
        return best && e->rank_in_force < best->rank_in_force;
}
