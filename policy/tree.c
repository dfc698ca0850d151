/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The default policy, `tree`: strict priority tiers, weighted fair time within a tier
 *
 * A tier is all entities of one priority. Its fair queue (fair.h) holds those that are ready and says who of them would
 * run, whether the tier has the device or not: a tier that was interrupted goes on where it was.
 *
 * Each dispatch decides in this order, and every decision is the function of what stands in struct Policy:
 *
 *   choose    Of the tiers with somebody ready the highest is active, and its fair queue's runners are the chosen ones;
 *             unless the device is kept (below), then nobody is. Hence never two tiers, at most `concurrency`, and
 *             work-conserving: a fair queue leaves no slot empty while somebody waits.
 *   linger    An entity that goes idle after it ran may be back in no time; how long it is worth keeping the device
 *             for it its own gaps tell (gaps.h), and never more than linger_ns. It keeps the device from lower tiers only.
 *             There is one such candidate, of the highest tier and of those the last to give up, since a wait for it
 *             covers a wait for the others. Nothing renews the wait but running again.
 *   owe       The held list has all that are ready and held, the longest held first, because it is only ever appended to
 *             when a hold begins. If its first has been held for starve_ns it is granted beside the chosen ones for
 *             starve_run_ns, or until it is idle. The next turn is not before starve_ns after this one began. So all turns
 *             together cost starve_run_ns/starve_ns of the device. And of n ready entities nobody is held for longer
 *             than (n + 1) * starve_ns: one period until it is starved, at most one more until the turn that has just
 *             been given is over, and one for each of the others that can be before it in the list, to whose end
 *             everybody goes after a turn. Turns are not charged: they are no part of a share, and an entity that has
 *             lived on them must not find itself in debt when its tier comes up.
 *   advance   The idle entities of the highest tier registered, the POLICY_ADVANCE_MAX most recent ones: each tier lists
 *             its idle entities in that order. One event adds one of them and so displaces at most one, however big
 *             the tier is; a new highest tier displaces them all, once. Without the bound a tier of n idle entities
 *             would cost n grants whenever it becomes or ceases to be the highest.
 *   report    Whoever is granted is in one list, whose length is that of the reasons to be in it: concurrency + one turn +
 *             POLICY_ADVANCE_MAX + the last runner + the lingered-for one, and what is new. Everybody in it without a
 *             reason is held, then everybody with a reason is granted; entities that are held and stay held, idle ones
 *             of lower tiers above all, are not looked at. A grant goes out only if it differs from the last one.
 *
 * Thresholds follow claims: those of a higher tier (one needs to be registered only: its first launch counts), and
 * those of equals that were more than could run at once within TREE_RECENT_NS. That time ends without a wake-up, at
 * whatever dispatch comes next.
 *
 * Asked again: at the end of the wait or the turn, when the first in the held list is starved and a turn may begin, or when
 * the fair queue says that somebody's slice counts. If all that are ready are chosen, none of these is there, and the answer
 * is never.
 *
 * Time. Usage is accounted in full, by the verdict last reported. Fair time is charged up to one slice beyond the wake-up
 * that we asked for: what is later than that is the absence of our caller (a suspended host, a stopped service), in which
 * no verdict meant anything, and it would be unfair to charge it to whoever was granted when it began.
 *
 * Cost of an event: the walks of the fair queue, O(log n); the runners, O(concurrency); the lists, O(1) an entity touched;
 * the tiers, a look through a bit set of eight words.
 */

#include <utlist.h>

#include "fair.h"
#include "gaps.h"
#include "policy.h"

#define TREE_TIERS     ((size_t) (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1))
#define TREE_WORD_BITS 64U

/* Equals that contended this short a time ago are expected to contend again: their thresholds stay. */
#define TREE_RECENT_NS (100 * NSEC_PER_MSEC)

typedef struct Tier {
        FairQueue fair;     /* ready ones */
        PolicyEntity *idle; /* the most recently ready (or new) first */
        size_t n_entities;
        uint64_t contended_until_ns;
} Tier;

/* Tiers by number, 0 the lowest priority. */
typedef struct TierSet {
        uint64_t words[(TREE_TIERS + TREE_WORD_BITS - 1) / TREE_WORD_BITS];
} TierSet;

struct PolicyEntity {
        Policy *policy;
        void *owner;
        PolicySettings settings;
        Tier *tier;
        FairNode fair;

        bool ready;
        bool advanced;     /* idle, and one of Policy.advanced */
        PolicyGrant grant; /* last reported */

        PolicyEntity *idle_prev, *idle_next;
        PolicyEntity *held_prev, *held_next;
        PolicyEntity *granted_prev, *granted_next;

        uint64_t held_since_ns;
        uint64_t idle_since_ns; /* NSEC_INFINITY until it has been ready once */
        Gaps gaps;

        uint64_t accounted_ns; /* `usage` is complete up to here */
        PolicyUsage usage;
};

struct Policy {
        PolicyConfig config;
        PolicyCallbacks callbacks;
        uint64_t now_ns;
        uint64_t wake_ns; /* when we asked to be called */

        Tier tiers[TREE_TIERS];
        TierSet registered, with_ready;
        size_t n_ready;

        Tier *active;          /* its runners are the chosen ones */
        PolicyEntity *held;    /* ready with VERDICT_HOLD, the longest held first */
        PolicyEntity *granted; /* last reported with VERDICT_RUN */
        PolicyEntity *advanced[POLICY_ADVANCE_MAX];
        size_t n_advanced;
        PolicyEntity *last; /* ran last, and is idle */

        PolicyEntity *owed; /* has its turn now */
        uint64_t owed_until_ns;
        uint64_t owed_next_ns; /* no other turn before */

        PolicyEntity *linger; /* became idle, and may be back before linger_until_ns */
        uint64_t linger_until_ns;
        bool lingering; /* the device is being kept for it */
};

static void tier_set_put(TierSet *s, size_t i, bool in) {
        uint64_t bit = UINT64_C(1) << (i % TREE_WORD_BITS);

        if (in)
                s->words[i / TREE_WORD_BITS] |= bit;
        else
                s->words[i / TREE_WORD_BITS] &= ~bit;
}

static Tier *tree_highest(Policy *p, const TierSet *s) {
        for (size_t w = ELEMENTSOF(s->words); w-- > 0;)
                if (s->words[w] != 0)
                        return p->tiers + w * TREE_WORD_BITS +
                                        (TREE_WORD_BITS - 1 - (unsigned) __builtin_clzll(s->words[w]));
        return NULL;
}

static void tier_note(Policy *p, const Tier *t) {
        size_t i = (size_t) (t - p->tiers);

        tier_set_put(&p->registered, i, t->n_entities > 0);
        tier_set_put(&p->with_ready, i, fair_queue_n(&t->fair) > 0);
}

static Tier *tree_tier(Policy *p, int priority) {
        return p->tiers + (priority - POLICY_PRIORITY_MIN);
}

static PolicyEntity *entity_of(FairNode *n) {
        return container_of(n, PolicyEntity, fair);
}

static bool entity_is_chosen(const PolicyEntity *e) {
        return e->fair.state == FAIR_RUNNING && e->tier == e->policy->active;
}

/* --- time --- */

/* Everything up to now happened under the verdicts of the last dispatch. Time that we were not called for although
 * we asked to be (the host slept, the service was stopped) is nobody's fault beyond one slice, and is not charged. */
static void tree_advance(Policy *p, uint64_t now_ns) {
        if (now_ns <= p->now_ns)
                return;
        if (p->active) {
                uint64_t until = MIN(now_ns, ns_add(p->wake_ns, p->config.timeslice_ns));

                fair_queue_advance(&p->active->fair, p->config.concurrency, ns_sub(until, p->now_ns));
        }
        p->now_ns = now_ns;
}

static PolicyUsage entity_usage_at(const PolicyEntity *e, uint64_t now_ns) {
        PolicyUsage u = e->usage;

        if (!e->ready)
                return u;
        if (e->grant.verdict == VERDICT_RUN)
                u.run_ns += ns_sub(now_ns, e->accounted_ns);
        else
                u.wait_ns += ns_sub(now_ns, e->accounted_ns);
        return u;
}

/* Before `ready` or the reported verdict changes. */
static void entity_account(PolicyEntity *e) {
        e->usage = entity_usage_at(e, e->policy->now_ns);
        e->accounted_ns = e->policy->now_ns;
}

/* --- lists --- */

static void entity_hold_begin(PolicyEntity *e) {
        Policy *p = e->policy;

        e->held_since_ns = p->now_ns;
        DL_APPEND2(p->held, e, held_prev, held_next);
}

static void entity_hold_end(PolicyEntity *e) {
        Policy *p = e->policy;

        DL_DELETE2(p->held, e, held_prev, held_next);
}

static void entity_idle_begin(PolicyEntity *e) {
        DL_PREPEND2(e->tier->idle, e, idle_prev, idle_next);
}

static void entity_idle_end(PolicyEntity *e) {
        DL_DELETE2(e->tier->idle, e, idle_prev, idle_next);
}

/* --- decisions --- */

/* The device is kept for the one that may be back, but from lower tiers only. */
static void tree_choose(Policy *p) {
        Tier *top = tree_highest(p, &p->with_ready);

        if (p->linger && p->now_ns >= p->linger_until_ns)
                p->linger = NULL;
        p->lingering = top && p->linger && p->linger->tier > top;
        p->active = p->lingering ? NULL : top;
        if (p->active)
                fair_queue_choose(&p->active->fair, p->config.concurrency, p->config.timeslice_ns);
        if (top && fair_queue_n(&top->fair) > p->config.concurrency)
                top->contended_until_ns = ns_add(p->now_ns, TREE_RECENT_NS);
}

static bool tree_has_floor(const Policy *p) {
        return p->config.starve_ns > 0 && p->config.starve_run_ns > 0;
}

/* The longest held entity that is not released anyway; at most `concurrency` before it are. */
static PolicyEntity *tree_find_starved(const Policy *p) {
        PolicyEntity *e;

        DL_FOREACH2(p->held, e, held_next) {
                if (ns_add(e->held_since_ns, p->config.starve_ns) > p->now_ns)
                        return NULL;
                if (!entity_is_chosen(e))
                        return e;
        }
        return NULL;
}

/* At most one owed turn per starve period. */
static void tree_owe(Policy *p) {
        if (p->owed && (p->now_ns >= p->owed_until_ns || entity_is_chosen(p->owed)))
                p->owed = NULL;
        if (p->owed || !tree_has_floor(p) || p->now_ns < p->owed_next_ns)
                return;

        p->owed = tree_find_starved(p);
        if (p->owed) {
                p->owed_until_ns = ns_add(p->now_ns, p->config.starve_run_ns);
                p->owed_next_ns = ns_add(p->now_ns, p->config.starve_ns);
        }
}

/* The idle entities of the highest tier, the most recent ones where there are many. */
static void tree_choose_advance(Policy *p) {
        Tier *highest = tree_highest(p, &p->registered);
        PolicyEntity *e;

        while (p->n_advanced > 0)
                p->advanced[--p->n_advanced]->advanced = false;
        if (!highest)
                return;
        DL_FOREACH2(highest->idle, e, idle_next) {
                if (p->n_advanced >= POLICY_ADVANCE_MAX)
                        break;
                e->advanced = true;
                p->advanced[p->n_advanced++] = e;
        }
}

static bool entity_may_run(const PolicyEntity *e) {
        const Policy *p = e->policy;

        if (e->ready)
                return entity_is_chosen(e) || e == p->owed;
        return e->advanced || (e == p->last && p->n_ready == 0) || (e == p->linger && p->lingering);
}

/* Those above have a claim against it, and its equals for as long as they contend. */
static bool entity_is_claimed(const PolicyEntity *e) {
        Policy *p = e->policy;

        return e->tier != tree_highest(p, &p->registered) ||
                        (e->tier->n_entities > 1 && p->now_ns < e->tier->contended_until_ns);
}

static uint32_t entity_threshold(const PolicyEntity *e) {
        return e->settings.threshold ?: e->policy->config.threshold;
}

static void entity_report(PolicyEntity *e, PolicyGrant g) {
        Policy *p = e->policy;

        if (e->grant.verdict == g.verdict && e->grant.threshold == g.threshold)
                return;

        entity_account(e);
        if (e->grant.verdict != g.verdict) {
                if (g.verdict == VERDICT_RUN) {
                        DL_PREPEND2(p->granted, e, granted_prev, granted_next);
                        if (e->ready)
                                entity_hold_end(e);
                } else {
                        DL_DELETE2(p->granted, e, granted_prev, granted_next);
                        if (e->ready) {
                                entity_hold_begin(e);
                                e->usage.n_preempted++;
                        }
                }
        }
        e->grant = g;
        p->callbacks.grant(e->owner, &e->grant, p->callbacks.userdata);
}

static void entity_run(PolicyEntity *e) {
        entity_report(e,
                        (PolicyGrant){
                                        .verdict = VERDICT_RUN,
                                        .threshold = entity_is_claimed(e) ? entity_threshold(e) : 0,
                        });
}

/* Somebody has a claim, or there would be no hold. The bound counts when a launch passes because a lease ran out. */
static void entity_hold(PolicyEntity *e) {
        entity_report(e, (PolicyGrant){.verdict = VERDICT_HOLD, .threshold = entity_threshold(e)});
}

/* Holds first, so that no two tiers are granted at once, not even between two callbacks. */
static void tree_report(Policy *p) {
        PolicyEntity *e, *next;
        FairNode *n;

        DL_FOREACH_SAFE2(p->granted, e, next, granted_next)
                if (entity_may_run(e))
                        entity_run(e);
                else
                        entity_hold(e);

        if (p->active)
                DL_FOREACH(p->active->fair.running, n)
                        entity_run(entity_of(n));
        if (p->owed)
                entity_run(p->owed);
        if (p->lingering)
                entity_run(p->linger);
        if (p->last && p->n_ready == 0)
                entity_run(p->last);
        for (size_t i = 0; i < p->n_advanced; i++)
                entity_run(p->advanced[i]);
}

static uint64_t tree_next(Policy *p) {
        uint64_t next = NSEC_INFINITY;

        if (p->lingering)
                next = p->linger_until_ns;
        if (p->active)
                next = ns_add(p->now_ns,
                                fair_queue_left(&p->active->fair, p->config.concurrency,
                                                p->config.timeslice_ns));
        if (p->owed)
                next = MIN(next, p->owed_until_ns);
        if (p->held && tree_has_floor(p)) {
                uint64_t starved = ns_add(p->held->held_since_ns, p->config.starve_ns);

                starved = MAX(starved, p->owed_next_ns);
                next = MIN(next, starved);
        }
        return next;
}

static uint64_t tree_dispatch(Policy *p, uint64_t now_ns) {
        tree_advance(p, now_ns);
        tree_choose(p);
        tree_owe(p);
        tree_choose_advance(p);
        tree_report(p);
        p->wake_ns = tree_next(p);
        return p->wake_ns;
}

/* --- events --- */

static PolicySettings settings_clamp(const PolicySettings *s) {
        return (PolicySettings){
                        .priority = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX),
                        .weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX),
                        .threshold = s->threshold,
        };
}

static int tree_entity_new(
                Policy *p, void *owner, const PolicySettings *s, uint64_t now_ns, PolicyEntity **ret) {
        PolicyEntity *e = malloc(sizeof(*e));
        if (!e)
                return -ENOMEM;

        tree_advance(p, now_ns);
        *e = (PolicyEntity){
                        .policy = p,
                        .owner = owner,
                        .settings = settings_clamp(s),
                        .grant = {.verdict = VERDICT_RUN},
                        .idle_since_ns = NSEC_INFINITY,
                        .accounted_ns = p->now_ns,
        };
        e->tier = tree_tier(p, e->settings.priority);
        e->tier->n_entities++;
        fair_node_init(&e->fair, e->settings.weight);
        entity_idle_begin(e);
        DL_PREPEND2(p->granted, e, granted_prev, granted_next);
        tier_note(p, e->tier);

        *ret = e;
        return 0;
}

static void tree_entity_ready(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        tree_advance(p, now_ns);
        if (e->ready)
                return;

        entity_account(e);
        entity_idle_end(e);
        e->ready = true;
        p->n_ready++;
        p->last = NULL;
        if (p->linger == e)
                p->linger = NULL;
        if (e->idle_since_ns != NSEC_INFINITY)
                gaps_learn(&e->gaps, ns_sub(p->now_ns, e->idle_since_ns));
        if (e->grant.verdict == VERDICT_HOLD)
                entity_hold_begin(e);
        fair_queue_join(&e->tier->fair, &e->fair, p->config.timeslice_ns);
        tier_note(p, e->tier);
}

/* The best candidate is in the highest tier, and among equals the one that may be back last. */
static void tree_consider_linger(Policy *p, PolicyEntity *e) {
        uint64_t until = ns_add(p->now_ns, gaps_worth_waiting(&e->gaps, p->config.linger_ns));

        if (until <= p->now_ns)
                return;
        if (p->linger && p->now_ns < p->linger_until_ns &&
                        (p->linger->tier > e->tier ||
                                        (p->linger->tier == e->tier && p->linger_until_ns >= until)))
                return;
        p->linger = e;
        p->linger_until_ns = until;
}

static void tree_entity_idle(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        tree_advance(p, now_ns);
        if (!e->ready)
                return;

        entity_account(e);
        e->ready = false;
        e->idle_since_ns = p->now_ns;
        p->n_ready--;
        if (p->owed == e)
                p->owed = NULL;
        if (e->grant.verdict == VERDICT_HOLD)
                entity_hold_end(e);
        else {
                p->last = e;
                tree_consider_linger(p, e);
        }
        fair_queue_leave(&e->tier->fair, &e->fair, p->config.timeslice_ns);
        entity_idle_begin(e);
        tier_note(p, e->tier);
}

static void tree_forget_advance(Policy *p, const PolicyEntity *e) {
        for (size_t i = 0; i < p->n_advanced; i++)
                if (p->advanced[i] == e) {
                        p->advanced[i] = p->advanced[--p->n_advanced];
                        return;
                }
}

static PolicyEntity *tree_entity_free(PolicyEntity *e, uint64_t now_ns) {
        Policy *p = e->policy;

        tree_entity_idle(e, now_ns);
        entity_idle_end(e);
        fair_queue_forget(&e->tier->fair, &e->fair);
        tree_forget_advance(p, e);
        if (e->grant.verdict == VERDICT_RUN)
                DL_DELETE2(p->granted, e, granted_prev, granted_next);
        if (p->last == e)
                p->last = NULL;
        if (p->linger == e)
                p->linger = NULL;
        e->tier->n_entities--;
        tier_note(p, e->tier);
        free(e);
        return NULL;
}

static void entity_change_tier(PolicyEntity *e, Tier *to) {
        Policy *p = e->policy;
        Tier *from = e->tier;

        if (e->ready)
                fair_queue_leave(&from->fair, &e->fair, p->config.timeslice_ns);
        else
                entity_idle_end(e);
        fair_node_move(&e->fair, &from->fair, &to->fair);
        e->tier = to;
        from->n_entities--;
        to->n_entities++;
        if (e->ready)
                fair_queue_join(&to->fair, &e->fair, p->config.timeslice_ns);
        else
                entity_idle_begin(e);
        tier_note(p, from);
        tier_note(p, to);
}

static void tree_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns) {
        Policy *p = e->policy;

        tree_advance(p, now_ns);
        e->settings = settings_clamp(s);
        if (e->settings.weight != e->fair.weight)
                fair_queue_reweight(&e->tier->fair, &e->fair, e->settings.weight);

        Tier *to = tree_tier(p, e->settings.priority);
        if (to != e->tier)
                entity_change_tier(e, to);
}

static void tree_entity_usage(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret) {
        *ret = entity_usage_at(e, now_ns);
}

/* --- the instance --- */

static bool config_is_valid(const PolicyConfig *c) {
        return c->concurrency >= 1 && c->timeslice_ns >= 1 &&
                        c->timeslice_ns <= FAIR_STEP_MAX / FAIR_LAG_SLICES &&
                        c->starve_run_ns <= c->starve_ns;
}

static int tree_new(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {
        if (!config_is_valid(config))
                return -EINVAL;

        Policy *p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;

        p->config = *config;
        p->callbacks = *callbacks;
        p->wake_ns = NSEC_INFINITY;
        for (size_t i = 0; i < TREE_TIERS; i++)
                fair_queue_init(&p->tiers[i].fair);

        *ret = p;
        return 0;
}

static Policy *tree_free(Policy *p) {
        free(p);
        return NULL;
}

static int tree_configure(Policy *p, const PolicyConfig *config, uint64_t now_ns) {
        if (!config_is_valid(config))
                return -EINVAL;

        tree_advance(p, now_ns);
        p->config = *config;
        if (p->owed)
                p->owed_until_ns = MIN(p->owed_until_ns, ns_add(p->now_ns, config->starve_run_ns));
        if (p->linger)
                p->linger_until_ns =
                                MIN(p->linger_until_ns, ns_add(p->linger->idle_since_ns, config->linger_ns));
        return 0;
}

const PolicyOps policy_tree_ops = {
                .name = "tree",
                .description = "Strict priorities; equals share by weight in time slices",
                .new = tree_new,
                .free = tree_free,
                .configure = tree_configure,
                .entity_new = tree_entity_new,
                .entity_free = tree_entity_free,
                .entity_configure = tree_entity_configure,
                .entity_ready = tree_entity_ready,
                .entity_idle = tree_entity_idle,
                .entity_usage = tree_entity_usage,
                .dispatch = tree_dispatch,
};
