/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's orderings: which entity is next where fair queues do not say it. All entities that could run are looked
 * at, and those with the lowest ranks are next.
 */

#include "naive-fair.h"
#include "policy-naive.h"

__extension__ typedef __int128 wide_t;

struct NaiveOrdering {
        const char *name;
        bool ranked, doubles;
        uint32_t (*weight)(uint32_t weight, uint32_t utilization, int nice);
        void (*told)(PolicyEntity *e);
        void (*comes)(PolicyEntity *e);
        void (*goes)(PolicyEntity *e);
        void (*ran)(PolicyEntity *e, uint64_t ns);
        void (*asked)(PolicyEntity *e);
        uint64_t (*left)(const PolicyEntity *e);
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

static void told_nothing(PolicyEntity *e) {
        e->level = 0;
}

/* kedf: sorts by deadline; entities without one come last. */
static void deadline(PolicyEntity *e) {
        uint64_t in = e->settings.deadline_us * UINT64_C(1000);

        e->level = in > 0;
        e->rank = e->here_since + in;
}

/* lax: gives an entity one of two priorities by the time since it came. */
static void laxity(PolicyEntity *e) {
        uint64_t until = e->here_since + e->settings.laxity_us * UINT64_C(1000);
        bool counts = e->here && e->settings.laxity_us > 0, critical = counts && e->p->now >= until;

        e->level = critical && e->settings.critical > e->settings.priority ? e->settings.critical
                                                                           : e->settings.priority;
        e->alarm = counts && !critical ? until : NSEC_INFINITY;
}

/* --- mlfq: how far down it is, and since when; and what its party has used of each level --- */

#define LOWEST 4

static NaiveParty *party_of(const PolicyEntity *e) {
        Policy *p = e->p;

        for (size_t i = 0; i < p->n_parties; i++)
                if (p->parties[i].top == e->party.top && p->parties[i].owner == e->party.owner)
                        return p->parties + i;
        p->parties = reallocarray(p->parties, p->n_parties + 1, sizeof(*p->parties));
        if (!p->parties)
                abort();
        p->parties[p->n_parties] = (NaiveParty){.top = e->party.top, .owner = e->party.owner};
        return p->parties + p->n_parties++;
}

static bool has_others(const PolicyEntity *e) {
        FOR_EACH(e->p, o)
                if (o->party.top != e->party.top || o->party.owner != e->party.owner)
                        return true;
        return false;
}

/* The time of a level that is left to the entity's party: where there are other parties, a party has two of the level's
 * budgets in a second. */
static uint64_t party_may(const PolicyEntity *e, int down) {
        const NaiveParty *party = party_of(e);
        uint64_t may = 2 * (e->p->config.timeslice_ns << down);

        if (down == LOWEST || !has_others(e) || e->p->now - party->since >= NSEC_PER_SEC)
                return NSEC_INFINITY;
        return ns_sub(may, party->used[down]);
}

/* The time that the entity may use of its level: one budget, or both of its party's if it is the party's only
 * entity. */
static uint64_t may_himself(const PolicyEntity *e) {
        size_t n = 0;

        FOR_EACH(e->p, o)
                n += o->party.top == e->party.top && o->party.owner == e->party.owner;
        return (e->p->config.timeslice_ns << e->down) * (n == 1 && has_others(e) ? 2 : 1);
}

static uint64_t party_leaves(const PolicyEntity *e) {
        return party_may(e, e->down);
}

static void stays(PolicyEntity *e) {
        uint64_t left = ns_sub(may_himself(e), e->used);

        left = MIN(left, party_may(e, e->down));
        e->level = -e->down;
        e->budget = left > 0 ? left : 1;
        e->alarm = e->here && e->down > 0 ? e->down_since + NSEC_PER_SEC : NSEC_INFINITY;
}

static void rises(PolicyEntity *e) {
        if (e->down > 0 && e->p->now >= e->down_since + NSEC_PER_SEC)
                e->used = e->down = 0;
        for (; party_may(e, e->down) == 0; e->down++) {
                e->used = 0;
                e->down_since = e->p->now;
        }
        stays(e);
}

static void uses(PolicyEntity *e, uint64_t ns) {
        NaiveParty *party = party_of(e);

        if (e->p->now - party->since >= NSEC_PER_SEC)
                *party = (NaiveParty){.top = party->top, .owner = party->owner, .since = e->p->now};
        party->used[e->down] += ns;
        e->used += ns;
}

static void sinks(PolicyEntity *e) {
        uint64_t slice;

        while (e->down < LOWEST && e->used >= (slice = may_himself(e))) {
                e->used -= slice;
                e->down++;
                e->down_since = e->p->now;
        }
        if (e->down == LOWEST)
                e->used = 0;
        rises(e);
}

/* --- what they weigh --- */

static uint32_t weighs_weight(uint32_t weight, uint32_t utilization, int nice) {
        return CLAMP(weight, 1U, 10000U);
}

/* The remainder of a division by 5/4, and so on, is dropped step by step. */
static uint32_t weighs_nice(uint32_t weight, uint32_t utilization, int nice) {
        uint64_t w = (uint64_t) CLAMP(weight, 1U, 10000U) * 1024;

        for (int i = 0; i < MIN(nice, 19); i++)
                w = w * 5 / 4;
        for (int i = 0; i > MAX(nice, -20); i--)
                w = w * 4 / 5;
        return (uint32_t) CLAMP(w / 1024, (uint64_t) 1, (uint64_t) 10000);
}

static uint32_t weighs_part(uint32_t weight, uint32_t utilization, int nice) {
        return utilization;
}

static const NaiveOrdering orderings[] = {
                {.name = "hpf", .told = told_priority},
                {.name = "hhpf", .told = told_priority},
                {.name = "chpf", .told = told_cpu_priority},
                {.name = "awf", .told = told_active},
                {.name = "kedf", .ranked = true, .told = deadline, .comes = deadline},
                {.name = "lax", .told = laxity, .comes = laxity, .goes = laxity, .asked = laxity},
                {.name = "mlfq",
                                .doubles = true,
                                .told = stays,
                                .comes = rises,
                                .goes = stays,
                                .ran = uses,
                                .asked = sinks,
                                .left = party_leaves},
                {.name = "cfs", .weight = weighs_nice, .told = told_nothing},
                {.name = "up", .weight = weighs_part, .told = told_nothing},
                {.name = "pup", .weight = weighs_part, .told = told_nothing},
};

bool naive_is_ranked(const Policy *p, int tier) {
        return p->ordering && p->ordering->ranked && tier + POLICY_PRIORITY_MIN > 0;
}

uint64_t naive_slice(const Policy *p, int tier) {
        bool doubles = p->ordering && p->ordering->doubles;

        return p->config.timeslice_ns << (doubles ? -(tier + POLICY_PRIORITY_MIN) : 0);
}

static uint32_t weighs(const Policy *p, uint32_t weight, uint32_t utilization, int nice) {
        if (!p->ordering)
                return weighs_weight(weight, utilization, nice);
        return p->ordering->weight ? p->ordering->weight(weight, utilization, nice) : 100;
}

uint32_t naive_weight(const Policy *p, const PolicySettings *s) {
        return weighs(p, s->weight, CLAMP(s->utilization, 1U, 10000U), s->nice);
}

uint32_t naive_node_weight(const Policy *p, const PolicyNodeSettings *s) {
        return weighs(p, s->weight, CLAMP(s->utilization, 1U, 100U), s->nice);
}

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

/* Alarms that come at once come in the order in which they were set. */
void naive_order_follow(PolicyEntity *e) {
        uint64_t rank = e->rank_in_force;
        int tier = CLAMP(e->level, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;

        if (tier != e->tier)
                naive_change(e, e->node, tier);
        else if (naive_is_ranked(e->p, tier) && e->m.here && e->rank != rank) {
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
        e->budget = NSEC_INFINITY;
        e->level = e->settings.priority;
        if (e->p->ordering)
                ask(e, e->p->ordering->told);
        e->tier = CLAMP(e->level, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;
}

void naive_order_told(PolicyEntity *e) {
        e->level = e->p->ordering ? e->level : e->settings.priority;
        if (e->p->ordering)
                ask(e, e->p->ordering->told);
        naive_order_follow(e);
}

void naive_order_comes(PolicyEntity *e) {
        e->here = true;
        e->here_since = e->p->now;
        if (!e->p->ordering)
                return;
        ask(e, e->p->ordering->comes);
        naive_order_follow(e);
}

void naive_order_goes(PolicyEntity *e, bool now) {
        e->here = false;
        if (!e->p->ordering)
                return;
        ask(e, e->p->ordering->goes);
        if (now)
                naive_order_follow(e);
}

/* Puts the entity into its queue, behind its equals. */
void naive_order_joins(PolicyEntity *e) {
        e->rank_in_force = e->rank;
        e->turn_order = e->p->order++;
        e->budget_left = e->budget;
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

        if (!p->ordering || !p->ordering->ran)
                return;
        for (uint64_t after = 0; (e = next_chosen(p, after)); after = e->chosen_order) {
                if (e->blocked)
                        continue;
                if (e->budget_left != NSEC_INFINITY)
                        e->budget_left = ns_sub(e->budget_left, ns);
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

        if (!p->ordering || !p->ordering->asked)
                return false;
        while ((e = next_alarm(p)) && e->alarm_in_force <= p->now) {
                e->alarm = NSEC_INFINITY;
                ask(e, p->ordering->asked);
                naive_order_follow(e);
                any = true;
        }
        for (uint64_t after = 0; (e = next_chosen(p, after));) {
                after = e->chosen_order;
                if (p->ordering->left) {
                        uint64_t left = p->ordering->left(e);

                        e->budget_left = MIN(e->budget_left, left);
                }
                if (e->budget_left > 0 || !is_wanted(p))
                        continue;
                any = true;
                ask(e, p->ordering->asked);
                e->budget_left = e->budget;
                naive_order_follow(e);
        }
        return any;
}

uint64_t naive_order_next(const Policy *p) {
        const PolicyEntity *first = next_alarm(p);
        uint64_t next = NSEC_INFINITY;

        if (!p->ordering->asked || !is_wanted(p))
                return NSEC_INFINITY;
        FOR_EACH(p, e)
                if (e->chosen && !e->blocked && e->budget_left != NSEC_INFINITY) {
                        uint64_t t = p->now + e->budget_left;

                        next = MIN(next, t);
                }
        if (first)
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

/* Whether the entity's place may be kept: only where no other entity wants it. */
bool naive_order_is_worth_keeping(const PolicyEntity *e) {
        Policy *p = e->p;
        bool turn = naive_has_turn(e);

        return naive_places(turn ? p->guaranteed : &p->root, e->tier) <= 1 && (turn || naive_n_ready(p) == 0);
}
