/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle. It shares no code with policy/ except the contract: no tree, no list, no running sum, no learned state
 * that is not recomputed from the raw history.
 */

#include <assert.h>

#include "policy-naive.h"

#define SCALE     10000
#define N_TIERS   (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1)
#define N_GAPS    16
#define MEMORY    16 /* slices */
#define REMEMBER  64 /* nodes */
#define RECENT_NS (100 * NSEC_PER_MSEC)

__extension__ typedef __int128 wide_t;

struct PolicyEntity {
        Policy *p;
        void *owner;
        int tier;
        uint32_t weight, threshold;
        bool ready, running, was_ready;
        uint64_t v, deadline, left;
        int64_t lag; /* away: what it comes back with */
        bool remembered;
        uint64_t left_at; /* by the tier's clock */
        uint64_t left_order;
        uint64_t wait_order, run_order, held_order, grant_order, idle_order;
        uint64_t held_since, idle_since, accounted;
        uint64_t gaps[N_GAPS]; /* the latest last */
        size_t n_gaps;
        PolicyGrant grant;
        PolicyUsage usage;
};

struct Policy {
        PolicyConfig config;
        PolicyCallbacks callbacks;
        PolicyEntity **all;
        size_t n;
        uint64_t now, wake, order;
        uint64_t v_left[N_TIERS]; /* V of an empty tier: what it was */
        uint64_t clock[N_TIERS];
        uint64_t contended_until[N_TIERS];
        int active; /* -1: none */
        PolicyEntity *owed, *linger, *last;
        uint64_t owed_until, owed_next, linger_until;
        bool lingering;
};

#define FOR_EACH(p, e)                                                                                      \
        for (PolicyEntity **_i = (p)->all, *e; _i < (p)->all + (p)->n && (e = *_i, true); _i++)

static size_t n_ready(const Policy *p, int tier) {
        size_t n = 0;

        FOR_EACH(p, e)
                n += e->ready && (tier < 0 || e->tier == tier);
        return n;
}

static int highest(const Policy *p, bool ready_only) {
        int t = -1;

        FOR_EACH(p, e)
                if ((e->ready || !ready_only) && e->tier > t)
                        t = e->tier;
        return t;
}

static uint64_t weight_of(const Policy *p, int tier) {
        uint64_t w = 0;

        FOR_EACH(p, e)
                if (e->ready && e->tier == tier)
                        w += e->weight;
        return w;
}

static int64_t floor_div(wide_t a, wide_t b) {
        assert(b > 0);
        return (int64_t) (a >= 0 ? a / b : -((-a + b - 1) / b));
}

/* The weighted mean of the ready ones, such that all lags, those of remembered ones too, add up to nothing. */
static uint64_t tier_v(Policy *p, int tier) {
        const PolicyEntity *first = NULL;
        wide_t sum = 0;

        FOR_EACH(p, e)
                if (e->ready && e->tier == tier) {
                        first = first ?: e;
                        sum += (wide_t) e->weight * (int64_t) (e->v - first->v);
                }
        FOR_EACH(p, e)
                if (e->remembered && e->tier == tier)
                        sum -= (wide_t) e->weight * e->lag;
        if (first)
                p->v_left[tier] = first->v + (uint64_t) floor_div(sum, (wide_t) weight_of(p, tier));
        return p->v_left[tier];
}

static bool waits(const PolicyEntity *e, int tier) {
        return e->ready && !e->running && e->tier == tier;
}

static bool eligible(const PolicyEntity *e) {
        return (int64_t) (e->v - tier_v(e->p, e->tier)) <= 0;
}

/* The eligible one with the earliest deadline; with `any`, without such, the one that is least early. */
static PolicyEntity *first_waiting(const Policy *p, int tier, bool any) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e) {
                if (!waits(e, tier) || !eligible(e))
                        continue;
                int64_t d = best ? (int64_t) (e->deadline - best->deadline) : -1;

                if (d < 0 || (d == 0 && e->wait_order < best->wait_order))
                        best = e;
        }
        if (best || !any)
                return best;
        FOR_EACH(p, e) {
                if (!waits(e, tier))
                        continue;
                int64_t d = best ? (int64_t) (e->v - best->v) : -1;

                if (d < 0 || (d == 0 && e->wait_order < best->wait_order))
                        best = e;
        }
        return best;
}

/* The runner after `e` (NULL: the first) in the order of falling weights, earlier runners first. */
static PolicyEntity *next_runner(const Policy *p, int tier, const PolicyEntity *after) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e) {
                if (!e->ready || !e->running || e->tier != tier)
                        continue;
                if (after &&
                                (e->weight > after->weight ||
                                                (e->weight == after->weight &&
                                                                e->run_order <= after->run_order)))
                        continue;
                if (!best || e->weight > best->weight ||
                                (e->weight == best->weight && e->run_order < best->run_order))
                        best = e;
        }
        return best;
}

#define FOR_EACH_RUNNER(p, t, e) for (PolicyEntity *e = next_runner(p, t, NULL); e; e = next_runner(p, t, e))

static size_t n_running(const Policy *p, int tier) {
        size_t n = 0;

        FOR_EACH_RUNNER(p, tier, e)
                n++;
        return n;
}

/* How many of the heaviest runners are worth more than a slot; what they leave. */
static size_t find_full(const Policy *p, int tier, uint64_t *ret_slots, uint64_t *ret_weight) {
        uint64_t slots = p->config.concurrency, weight = weight_of(p, tier);
        size_t n = 0;

        FOR_EACH_RUNNER(p, tier, e) {
                if (slots == 1 || e->weight * slots <= weight)
                        break;
                n++;
                slots--;
                weight -= e->weight;
        }
        *ret_slots = slots;
        *ret_weight = weight;
        return n;
}

static uint64_t as_v(uint64_t ns, uint64_t weight, uint64_t times) {
        return (uint64_t) ((wide_t) ns * SCALE * times / weight);
}

static void advance(Policy *p, uint64_t now) {
        uint64_t slots, weight, until = MIN(now, ns_add(p->wake, p->config.timeslice_ns));

        if (now <= p->now)
                return;
        if (p->active >= 0 && until > p->now) {
                uint64_t ns = until - p->now;
                bool contended = first_waiting(p, p->active, true);
                size_t full = find_full(p, p->active, &slots, &weight), i = 0;

                p->clock[p->active] += ns;
                FOR_EACH_RUNNER(p, p->active, e) {
                        e->left = ns_sub(e->left, ns);
                        if (contended)
                                e->v += i++ < full ? as_v(ns, weight, slots) : as_v(ns, e->weight, 1);
                }
        }
        p->now = now;
}

static void start(Policy *p, PolicyEntity *e) {
        e->running = true;
        e->run_order = p->order++;
}

static void place(Policy *p, PolicyEntity *e) {
        e->deadline = e->v + as_v(e->left, e->weight, 1);
}

static void stop(Policy *p, PolicyEntity *e) {
        e->left = e->left ?: p->config.timeslice_ns;
        e->running = false;
        e->wait_order = p->order++;
        place(p, e);
}

static uint64_t deadline_of(const Policy *p, const PolicyEntity *e) {
        return e->v + as_v(e->left ?: p->config.timeslice_ns, e->weight, 1);
}

static bool due(Policy *p, const PolicyEntity *e, const PolicyEntity *next) {
        int64_t later = (int64_t) (deadline_of(p, e) - next->deadline);

        if (e->left > 0)
                return later > 0;
        return later >= 0 || (int64_t) (e->v - tier_v(p, e->tier)) > 0;
}

static PolicyEntity *latest(Policy *p, int tier, const PolicyEntity *next, size_t full) {
        PolicyEntity *best = NULL;
        size_t i = 0;

        FOR_EACH_RUNNER(p, tier, e)
                if (!next || (i++ >= full && due(p, e, next)))
                        if (!best || (int64_t) (deadline_of(p, e) - deadline_of(p, best)) > 0)
                                best = e;
        return best;
}

static void choose_runners(Policy *p, int tier) {
        PolicyEntity *next, *last;
        uint64_t slots, weight;

        FOR_EACH(p, e)
                if (e->remembered && e->tier == tier &&
                                p->clock[tier] - e->left_at > MEMORY * p->config.timeslice_ns) {
                        e->remembered = false;
                        e->lag = 0;
                }
        while (n_running(p, tier) > p->config.concurrency)
                stop(p, latest(p, tier, NULL, 0));
        while (n_running(p, tier) < p->config.concurrency && (next = first_waiting(p, tier, true)))
                start(p, next);
        while ((next = first_waiting(p, tier, false))) {
                last = latest(p, tier, next, find_full(p, tier, &slots, &weight));
                if (!last)
                        break;
                start(p, next);
                stop(p, last);
        }
        if (next)
                FOR_EACH_RUNNER(p, tier, e)
                        e->left = e->left ?: p->config.timeslice_ns;
}

static bool chosen(const PolicyEntity *e) {
        return e->ready && e->running && e->tier == e->p->active;
}

static void choose(Policy *p) {
        int top = highest(p, true);

        if (p->linger && p->now >= p->linger_until)
                p->linger = NULL;
        p->lingering = top >= 0 && p->linger && p->linger->tier > top;
        p->active = p->lingering ? -1 : top;
        if (p->active >= 0)
                choose_runners(p, p->active);
        if (top >= 0 && n_ready(p, top) > p->config.concurrency)
                p->contended_until[top] = p->now + RECENT_NS;
}

static PolicyEntity *longest_held(const Policy *p, bool skip_chosen) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->ready && e->grant.verdict == VERDICT_HOLD && !(skip_chosen && chosen(e)))
                        if (!best || e->held_order < best->held_order)
                                best = e;
        return best;
}

static void owe(Policy *p) {
        PolicyEntity *e;

        if (p->owed && (p->now >= p->owed_until || chosen(p->owed)))
                p->owed = NULL;
        if (p->owed || p->config.starve_ns == 0 || p->config.starve_run_ns == 0 || p->now < p->owed_next)
                return;
        e = longest_held(p, true);
        if (!e || ns_add(e->held_since, p->config.starve_ns) > p->now)
                return;
        p->owed = e;
        p->owed_until = ns_add(p->now, p->config.starve_run_ns);
        p->owed_next = ns_add(p->now, p->config.starve_ns);
}

/* Idle, of the highest tier, and fewer than POLICY_ADVANCE_MAX such are more recent. */
static bool advanced(const PolicyEntity *e) {
        size_t before = 0;

        if (e->ready || e->tier != highest(e->p, false))
                return false;
        FOR_EACH(e->p, o)
                before += !o->ready && o->tier == e->tier && o->idle_order > e->idle_order;
        return before < POLICY_ADVANCE_MAX;
}

static bool may_run(const PolicyEntity *e) {
        const Policy *p = e->p;

        if (e->ready)
                return chosen(e) || p->owed == e;
        return advanced(e) || (p->last == e && n_ready(p, -1) == 0) || (p->lingering && p->linger == e);
}

static PolicyUsage usage_at(const PolicyEntity *e, uint64_t now) {
        PolicyUsage u = e->usage;

        if (e->ready && e->grant.verdict == VERDICT_RUN)
                u.run_ns += ns_sub(now, e->accounted);
        else if (e->ready)
                u.wait_ns += ns_sub(now, e->accounted);
        return u;
}

static void account(PolicyEntity *e) {
        e->usage = usage_at(e, e->p->now);
        e->accounted = e->p->now;
}

static void report(PolicyEntity *e, Verdict v) {
        Policy *p = e->p;
        PolicyGrant g = {.verdict = v, .threshold = e->threshold ?: p->config.threshold};
        size_t n_equals = 0;

        FOR_EACH(p, o)
                n_equals += o->tier == e->tier;
        if (v == VERDICT_RUN && e->tier == highest(p, false) &&
                        (n_equals == 1 || p->now >= p->contended_until[e->tier]))
                g.threshold = 0;
        if (g.verdict == e->grant.verdict && g.threshold == e->grant.threshold)
                return;
        account(e);
        if (v != e->grant.verdict && v == VERDICT_RUN)
                e->grant_order = p->order++;
        else if (v != e->grant.verdict && e->ready) {
                e->held_order = p->order++;
                e->held_since = p->now;
                e->usage.n_preempted++;
        }
        e->grant = g;
        p->callbacks.grant(e->owner, &g, p->callbacks.userdata);
}

static PolicyEntity *next_granted(const Policy *p, uint64_t below) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->grant.verdict == VERDICT_RUN && e->grant_order < below)
                        if (!best || e->grant_order > best->grant_order)
                                best = e;
        return best;
}

static void report_all(Policy *p) {
        PolicyEntity *e;

        for (uint64_t below = UINT64_MAX; (e = next_granted(p, below)); below = e->grant_order)
                report(e, may_run(e) ? VERDICT_RUN : VERDICT_HOLD);
        if (p->active >= 0)
                FOR_EACH_RUNNER(p, p->active, r)
                        report(r, VERDICT_RUN);
        if (p->owed)
                report(p->owed, VERDICT_RUN);
        if (p->lingering)
                report(p->linger, VERDICT_RUN);
        if (p->last && n_ready(p, -1) == 0)
                report(p->last, VERDICT_RUN);
        for (uint64_t below = UINT64_MAX;;) {
                PolicyEntity *best = NULL;

                FOR_EACH(p, o)
                        if (advanced(o) && o->idle_order < below)
                                if (!best || o->idle_order > best->idle_order)
                                        best = o;
                if (!best)
                        return;
                report(best, VERDICT_RUN);
                below = best->idle_order;
        }
}

/* The end of a slice; later, if nobody will be eligible by then. */
static uint64_t next_choice(Policy *p, int tier) {
        uint64_t slots, weight, left = NSEC_INFINITY;
        size_t full = find_full(p, tier, &slots, &weight), i = 0;
        const PolicyEntity *next = first_waiting(p, tier, true);
        wide_t distance = 0, rate = 0;

        FOR_EACH_RUNNER(p, tier, e) {
                if (i++ >= full) {
                        left = MIN(left, e->left);
                        rate += (wide_t) SCALE * weight;
                } else
                        rate += (wide_t) SCALE * e->weight * slots;
        }
        if (first_waiting(p, tier, false))
                return left;

        /* How far all ready ones together must advance for the mean to be at `next`. */
        FOR_EACH(p, e) {
                if (e->ready && e->tier == tier)
                        distance += (wide_t) e->weight * (int64_t) (next->v - e->v);
                else if (e->remembered && e->tier == tier)
                        distance += (wide_t) e->weight * e->lag;
        }
        assert(rate > 0);
        uint64_t t = (uint64_t) ((distance * weight + rate - 1) / rate);
        t = MAX(t, (uint64_t) 1);
        return MAX(left, t);
}

static uint64_t next_time(Policy *p) {
        uint64_t next = NSEC_INFINITY, t;
        const PolicyEntity *held;

        if (p->lingering)
                next = p->linger_until;
        if (p->active >= 0 && first_waiting(p, p->active, true)) {
                t = ns_add(p->now, next_choice(p, p->active));
                next = MIN(next, t);
        }
        if (p->owed)
                next = MIN(next, p->owed_until);
        held = longest_held(p, false);
        if (held && p->config.starve_ns > 0 && p->config.starve_run_ns > 0) {
                t = ns_add(held->held_since, p->config.starve_ns);
                t = MAX(t, p->owed_next);
                next = MIN(next, t);
        }
        return next;
}

static uint64_t naive_dispatch(Policy *p, uint64_t now) {
        advance(p, now);
        choose(p);
        owe(p);
        report_all(p);
        p->wake = next_time(p);
        return p->wake;
}

static void join(PolicyEntity *e) {
        Policy *p = e->p;

        e->v = tier_v(p, e->tier) - (uint64_t) e->lag;
        e->remembered = false;
        e->ready = true;
        e->left = p->config.timeslice_ns;
        stop(p, e);
}

static void remember(PolicyEntity *e) {
        Policy *p = e->p;
        PolicyEntity *oldest = NULL;
        size_t n = 0;

        FOR_EACH(p, o)
                if (o->remembered && o->tier == e->tier) {
                        n++;
                        if (!oldest || o->left_order < oldest->left_order)
                                oldest = o;
                }
        if (n >= REMEMBER) {
                oldest->remembered = false;
                oldest->lag = 0;
        }
        e->remembered = true;
        e->left_at = p->clock[e->tier];
        e->left_order = p->order++;
}

static void leave(PolicyEntity *e) {
        Policy *p = e->p;
        int64_t most = (int64_t) as_v(p->config.timeslice_ns, e->weight, 2),
                lag = (int64_t) (tier_v(p, e->tier) - e->v);

        e->lag = CLAMP(lag, -most, most);
        e->ready = e->running = false;
        remember(e);
}

static int naive_entity_new(
                Policy *p, void *owner, const PolicySettings *s, uint64_t now, PolicyEntity **ret) {
        PolicyEntity *e = calloc(1, sizeof(*e));
        PolicyEntity **all = reallocarray(p->all, p->n + 1, sizeof(*all));

        if (!e || !all)
                abort();
        p->all = all;
        advance(p, now);
        e->p = p;
        e->owner = owner;
        e->tier = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;
        e->weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX);
        e->threshold = s->threshold;
        e->accounted = p->now;
        e->grant_order = p->order++;
        e->idle_order = p->order++;
        p->all[p->n++] = e;
        *ret = e;
        return 0;
}

static void naive_entity_ready(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        advance(p, now);
        if (e->ready)
                return;
        account(e);
        p->last = NULL;
        p->linger = p->linger == e ? NULL : p->linger;
        if (e->was_ready) {
                if (e->n_gaps == N_GAPS)
                        memmove(e->gaps, e->gaps + 1, --e->n_gaps * sizeof(e->gaps[0]));
                e->gaps[e->n_gaps++] = p->now - e->idle_since;
        }
        e->was_ready = true;
        if (e->grant.verdict == VERDICT_HOLD) {
                e->held_order = p->order++;
                e->held_since = p->now;
        }
        join(e);
}

/* The gap that would have been best to wait for, by trying each on the whole history; the shortest of equally good ones. */
static uint64_t worth_waiting(const PolicyEntity *e, uint64_t limit) {
        uint64_t best = 0, wait = 0;
        wide_t best_gain = 0;

        for (size_t c = 0; c < e->n_gaps; c++) {
                uint64_t t = MIN(e->gaps[c] + e->gaps[c] / 4, limit);
                wide_t gain = 0;

                if (e->gaps[c] > limit)
                        continue;
                for (size_t i = 0; i < e->n_gaps; i++)
                        gain += e->gaps[i] <= e->gaps[c] ? (wide_t) limit - e->gaps[i] : -(wide_t) t;
                if (gain > best_gain || (gain == best_gain && e->gaps[c] < best)) {
                        best = e->gaps[c];
                        wait = t;
                        best_gain = gain;
                }
        }
        return wait;
}

static void naive_entity_idle(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        advance(p, now);
        if (!e->ready)
                return;
        account(e);
        e->idle_since = p->now;
        e->idle_order = p->order++;
        p->owed = p->owed == e ? NULL : p->owed;
        leave(e);
        if (e->grant.verdict == VERDICT_HOLD)
                return;

        uint64_t until = p->now + worth_waiting(e, p->config.linger_ns);
        bool better = p->linger && p->now < p->linger_until &&
                        (p->linger->tier > e->tier ||
                                        (p->linger->tier == e->tier && p->linger_until >= until));

        p->last = e;
        if (until > p->now && !better) {
                p->linger = e;
                p->linger_until = until;
        }
}

static PolicyEntity *naive_entity_free(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        naive_entity_idle(e, now);
        p->last = p->last == e ? NULL : p->last;
        p->linger = p->linger == e ? NULL : p->linger;
        for (size_t i = 0; i < p->n; i++)
                if (p->all[i] == e)
                        p->all[i] = p->all[--p->n];
        free(e);
        return NULL;
}

static void naive_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now) {
        Policy *p = e->p;
        int tier = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX) - POLICY_PRIORITY_MIN;
        uint32_t weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX);

        advance(p, now);
        e->threshold = s->threshold;
        if (weight != e->weight) {
                uint64_t v = tier_v(p, e->tier);

                if (e->ready)
                        e->v = v + (uint64_t) ((wide_t) (int64_t) (e->v - v) * e->weight / weight);
                else
                        e->lag = (int64_t) ((wide_t) e->lag * e->weight / weight);
                e->weight = weight;
                if (e->running)
                        e->run_order = p->order++;
                else if (e->ready)
                        place(p, e);
        }
        if (tier == e->tier)
                return;

        bool ready = e->ready;
        if (ready)
                leave(e);
        bool remembered = e->remembered;
        e->remembered = false;
        e->tier = tier;
        if (remembered)
                remember(e);
        if (ready)
                join(e);
        else
                e->idle_order = p->order++;
}

static void naive_entity_usage(const PolicyEntity *e, uint64_t now, PolicyUsage *ret) {
        *ret = usage_at(e, now);
}

static int naive_new(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {
        Policy *p = calloc(1, sizeof(*p));

        if (!p)
                abort();
        p->config = *config;
        p->callbacks = *callbacks;
        p->wake = NSEC_INFINITY;
        p->active = -1;
        *ret = p;
        return 0;
}

static Policy *naive_free(Policy *p) {
        free(p->all);
        free(p);
        return NULL;
}

static int naive_configure(Policy *p, const PolicyConfig *config, uint64_t now) {
        advance(p, now);
        p->config = *config;
        if (p->owed) {
                uint64_t t = ns_add(p->now, config->starve_run_ns);

                p->owed_until = MIN(p->owed_until, t);
        }
        if (p->linger) {
                uint64_t t = ns_add(p->linger->idle_since, config->linger_ns);

                p->linger_until = MIN(p->linger_until, t);
        }
        return 0;
}

const PolicyOps policy_naive_ops = {
                .name = "naive",
                .description = "The oracle",
                .new = naive_new,
                .free = naive_free,
                .configure = naive_configure,
                .entity_new = naive_entity_new,
                .entity_free = naive_entity_free,
                .entity_configure = naive_entity_configure,
                .entity_ready = naive_entity_ready,
                .entity_idle = naive_entity_idle,
                .entity_usage = naive_entity_usage,
                .dispatch = naive_dispatch,
};
