/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Driving a policy and checking its contract; see policy-harness.h.
 */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy-naive.h"

void harness_check(const Harness *h, bool ok, const char *what, int line) {
        if (ok)
                return;
        print_error("seed %" PRIu64 ", step %" PRIu64 ", time %" PRIu64 ", line %d: %s\n", h->seed, h->step, h->now_ns,
                        line, what);
        fail();
}

static void harness_on_grant(void *owner, const PolicyGrant *g, void *userdata) {
        Job *j = owner;
        Harness *h = userdata;

        CHECK(h, g->verdict == VERDICT_RUN || g->verdict == VERDICT_HOLD);
        CHECK(h, g->verdict != j->grant.verdict || g->threshold != j->grant.threshold);
        CHECK(h, h->n_got < ELEMENTSOF(h->got));
        h->got[h->n_got++] = (HarnessGrant){.job = j, .grant = *g};

        if (g->verdict != j->grant.verdict) {
                if (j->ready && g->verdict == VERDICT_RUN) {
                        j->granted_step = h->step;
                        j->granted_from_tail = j->drain_order > 0;
                }
                if (j->ready || g->verdict == VERDICT_RUN)
                        j->drain_order = 0;
                if (g->verdict == VERDICT_RUN)
                        j->grant_order = ++h->order;
                else if (j->ready) {
                        j->drain_order = ++h->order;
                        j->drain_until_ns = h->now_ns + NSEC_PER_SEC;
                }
        }
        if (j->ready && g->verdict != j->grant.verdict) {
                if (g->verdict == VERDICT_RUN) {
                        j->waited_ns = h->now_ns - j->held_since_ns;
                        j->granted_ns = h->now_ns;
                } else {
                        j->held_since_ns = h->now_ns;
                        j->usage.n_preempted++;
                        h->seen.n_preempted++;
                }
        }
        j->grant = *g;
}

static void harness_on_oracle_grant(void *owner, const PolicyGrant *g, void *userdata) {
        Harness *h = userdata;

        CHECK(h, h->n_want < ELEMENTSOF(h->want));
        h->want[h->n_want++] = (HarnessGrant){.job = owner, .grant = *g};
}

Harness *harness_new(const PolicyConfig *config, bool with_oracle, uint64_t seed) {
        return harness_new_policy(&policy_tree_ops, config, with_oracle, seed);
}

int job_level(const Job *j) {
        return j->h->oracle ? naive_level(j->twin) : j->settings.priority;
}

Harness *harness_new_policy(const PolicyOps *ops, const PolicyConfig *config, bool with_oracle, uint64_t seed) {
        Harness *h = calloc(1, sizeof(*h));

        assert_non_null(h);
        h->ops = ops;
        h->outside = POLICY_LEVEL_NONE;
        h->config = *config;
        h->seed = seed;
        h->now_ns = NSEC_PER_SEC;
        h->wake_ns = NSEC_INFINITY;
        assert_int_equal(h->ops->new (config, &(PolicyCallbacks){.grant = harness_on_grant, .userdata = h}, &h->policy),
                        0);
        if (with_oracle)
                assert_int_equal(policy_naive_ops.new(config,
                                                 &(PolicyCallbacks){.grant = harness_on_oracle_grant, .userdata = h},
                                                 &h->oracle),
                                0);
        if (h->oracle)
                naive_set_ordering(h->oracle, ops->name);
        return h;
}

Harness *harness_free(Harness *h) {
        while (h->n > 0)
                harness_remove(h->jobs[h->n - 1]);
        for (size_t i = 0; h->n_nodes > 0; i = (i + 1) % MAX(h->n_nodes, (size_t) 1))
                if (i < h->n_nodes && harness_node_is_empty(h->nodes[i]))
                        harness_remove_node(h->nodes[i]);
        h->ops->free(h->policy);
        if (h->oracle)
                policy_naive_ops.free(h->oracle);
        free(h->floors);
        free(h);
        return NULL;
}

/* The settings as the policy bounds them. */
static PolicySettings in_range(PolicySettings s) {
        s.priority = CLAMP(s.priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX);
        return s;
}

static bool job_is_limited(const Job *j) {
        for (const HarnessNode *n = j->node; n; n = n->parent)
                if (n->settings.max > 0)
                        return true;
        return false;
}

static bool job_is_guaranteed(const Job *j) {
        for (const HarnessNode *n = j->node; n; n = n->parent)
                if (n->settings.min > 0)
                        return true;
        return false;
}

static bool harness_has(const Harness *h, bool max) {
        for (size_t i = 0; i < h->n_nodes; i++)
                if ((max ? h->nodes[i]->settings.max : h->nodes[i]->settings.min) > 0)
                        return true;
        return false;
}

/* --- jobs --- */

Job *harness_add(Harness *h, PolicySettings s) {
        return harness_add_below(h, NULL, s);
}

Job *harness_add_below(Harness *h, HarnessNode *node, PolicySettings s) {
        Job *j = calloc(1, sizeof(*j));

        assert_non_null(j);
        CHECK(h, h->n < HARNESS_JOBS_MAX);
        *j = (Job){
                        .h = h,
                        .node = node,
                        .settings = in_range(s),
                        .idle_since_ns = NSEC_INFINITY,
                        .idle_from_run_ns = NSEC_INFINITY,
                        .grant_order = ++h->order,
        };
        CHECK(h, h->ops->entity_new(h->policy, node ? node->node : NULL, j, &s, h->now_ns, &j->entity) == 0);
        if (h->oracle)
                CHECK(h,
                                policy_naive_ops.entity_new(
                                                h->oracle, node ? node->twin : NULL, j, &s, h->now_ns, &j->twin) == 0);
        h->jobs[h->n++] = j;
        h->floors_changed = true;
        h->n_new++;
        return j;
}

void harness_remove(Job *j) {
        Harness *h = j->h;

        CHECK(h, !h->ops->entity_free(j->entity, h->now_ns));
        if (h->oracle)
                policy_naive_ops.entity_free(j->twin, h->now_ns);
        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i] == j)
                        h->jobs[i] = h->jobs[--h->n];
        if (h->owed == j)
                h->owed = NULL;
        free(j);
}

void harness_move(Job *j, HarnessNode *to) {
        Harness *h = j->h;

        CHECK(h, h->ops->entity_move(j->entity, to ? to->node : NULL, h->now_ns) == 0);
        if (h->oracle)
                CHECK(h, policy_naive_ops.entity_move(j->twin, to ? to->twin : NULL, h->now_ns) == 0);
        if (to != j->node)
                j->held_since_ns = h->now_ns;
        j->node = to;
        h->floors_changed = true;
}

/* Notes that the job would have been granted in advance, where there are no more idle jobs than the policy grants in
 * advance. */
static void note_advance(Job *j) {
        unsigned *missed = &j->h->maybe_missed[job_level(j) - POLICY_PRIORITY_MIN];
        size_t n_idle = 0;

        if (j->ready)
                return;
        for (size_t i = 0; i < j->h->n; i++)
                n_idle += !j->h->jobs[i]->ready && job_level(j->h->jobs[i]) == job_level(j);
        *missed = n_idle > POLICY_ADVANCE_MAX ? *missed + 1 : 0;
}

void harness_ready(Job *j) {
        Harness *h = j->h;

        note_advance(j);
        h->ops->entity_ready(j->entity, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_ready(j->twin, h->now_ns);
        if (!j->ready) {
                j->held_since_ns = j->granted_ns = h->now_ns;
                j->waited_ns = 0;
                if (j->grant.verdict == VERDICT_RUN)
                        j->drain_order = 0;
        }
        j->ready = true;
}

void harness_idle(Job *j) {
        Harness *h = j->h;

        h->ops->entity_idle(j->entity, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_idle(j->twin, h->now_ns);
        if (j->ready) {
                j->idle_since_ns = h->now_ns;
                if (j->grant.verdict == VERDICT_RUN)
                        j->idle_from_run_ns = h->now_ns;
                j->drain_order = 0;
        }
        j->ready = false;
        if (h->owed == j)
                h->owed = NULL;
}

void harness_tail(Job *j) {
        Harness *h = j->h;

        h->ops->entity_tail(j->entity, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_tail(j->twin, h->now_ns);
        if (j->drain_order > 0 || job_runs(j))
                return;
        j->drain_order = ++h->order;
        j->drain_until_ns = h->now_ns + NSEC_PER_SEC;
}

void harness_drained(Job *j) {
        Harness *h = j->h;

        h->ops->entity_drained(j->entity, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_drained(j->twin, h->now_ns);
        j->drain_order = 0;
}

void harness_set(Job *j, PolicySettings s) {
        Harness *h = j->h;

        h->ops->entity_configure(j->entity, &s, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_configure(j->twin, &s, h->now_ns);
        if (memcmp(&j->settings.party, &s.party, sizeof(s.party)) != 0) {
                j->held_since_ns = h->now_ns;
                h->floors_changed = true;
        }
        j->settings = in_range(s);
}

void harness_configure(Harness *h, const PolicyConfig *config) {
        CHECK(h, h->ops->configure(h->policy, config, h->now_ns) == 0);
        if (h->oracle)
                CHECK(h, policy_naive_ops.configure(h->oracle, config, h->now_ns) == 0);
        if (config->starve_ns != h->config.starve_ns || config->starve_run_ns != h->config.starve_run_ns ||
                        config->linger_ns != h->config.linger_ns)
                h->reconfigured = true;
        h->config = *config;
}

void harness_outside(Harness *h, int level) {
        h->ops->outside(h->policy, level, h->now_ns);
        if (h->oracle)
                policy_naive_ops.outside(h->oracle, level, h->now_ns);
        h->outside = level;
}

/* --- the contract --- */

static int highest_priority(const Harness *h, bool ready_only) {
        int best = POLICY_PRIORITY_MIN - 1;

        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->counts || !ready_only)
                        best = MAX(best, h->jobs[i]->level);
        return best;
}

/* Notes of each job what several of the checks ask. */
static void look_at_jobs(Harness *h) {
        h->minima = harness_has(h, false);
        h->maxima = harness_has(h, true);
        for (size_t i = 0; i < h->n; i++) {
                Job *j = h->jobs[i];

                j->level = job_level(j);
                j->is_limited = h->maxima && job_is_limited(j);
                /* A held job with a maximum on its path may be stopped. */
                j->counts = j->ready && j->level >= h->outside && (!j->is_limited || j->grant.verdict == VERDICT_RUN);
                j->may_be_kept = !j->ready && j->idle_from_run_ns != NSEC_INFINITY && j->grant.verdict == VERDICT_RUN &&
                                (h->reconfigured || h->now_ns < j->idle_from_run_ns + h->config.linger_ns);
        }
        h->top_level = highest_priority(h, true);
}

static size_t count_ready(const Harness *h, int priority, bool running_only) {
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];

                n += j->counts && j->level == priority && (!running_only || job_runs(j));
        }
        return n;
}

static size_t count_may_be_ready(const Harness *h, int priority) {
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++)
                n += h->jobs[i]->ready && h->jobs[i]->level == priority;
        return n;
}

/* The number of the tier's jobs, or of the jobs above it, for which places may be kept. */
static size_t count_kept(const Harness *h, int priority, bool above) {
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++)
                n += h->jobs[i]->may_be_kept && (above ? h->jobs[i]->level > priority : h->jobs[i]->level == priority);
        return n;
}

static bool may_linger(const Harness *h, int top) {
        return count_kept(h, top, true) > 0;
}

/* The floor owes a turn only after starve_ns of waiting, for starve_run_ns, and once per starve_ns. */
static void check_owed(Harness *h, const Job *owed) {
        if (h->reconfigured)
                return;
        CHECK(h, owed->waited_ns >= h->config.starve_ns);
        CHECK(h, h->late || h->now_ns < owed->granted_ns + h->config.starve_run_ns);
        if (owed != h->owed || owed->granted_ns != h->owed_since_ns)
                CHECK(h, h->owed_since_ns == 0 || owed->granted_ns >= h->owed_since_ns + h->config.starve_ns);
        h->owed = owed;
        h->owed_since_ns = owed->granted_ns;
}

/* A job that runs below a minimum's node, and not because the floor owes it a turn. */
static const Job *find_guaranteed(const Harness *h, int top) {
        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];

                if (job_runs(j) && job_is_guaranteed(j) && j->level < top && j->waited_ns < h->config.starve_ns)
                        return j;
        }
        return NULL;
}

static void check_running(Harness *h) {
        bool minima = h->minima;
        int top = h->top_level;
        const Job *guaranteed = minima ? find_guaranteed(h, top) : NULL;
        size_t n_top = count_ready(h, top, false), n_running = count_ready(h, top, true), n_owed = 0;
        size_t should = MIN(n_top, (size_t) h->config.concurrency);

        for (size_t i = 0; i < h->n; i++) {
                h->seen.n_stopped += h->jobs[i]->ready && !h->jobs[i]->counts;
                if (job_runs(h->jobs[i]) && h->jobs[i]->level < top && h->jobs[i] != guaranteed) {
                        n_owed++;
                        if (!minima)
                                check_owed(h, h->jobs[i]);
                }
        }
        h->seen.n_guaranteed += guaranteed != NULL;
        CHECK(h, n_owed <= (minima ? 2U : 1U));

        if (n_running > should) { /* one of the same tier is owed a turn */
                bool found = h->reconfigured;

                CHECK(h, n_owed <= (minima ? 1U : 0U) && n_running == should + 1);
                for (size_t i = 0; i < h->n; i++)
                        found = found || (job_runs(h->jobs[i]) && h->jobs[i]->waited_ns >= h->config.starve_ns);
                CHECK(h, found);
        }
        if (!minima && !h->reconfigured)
                harness_check_awaited(h, top, n_running);
        /* The policy is work-conserving, but for places that equals' launches still have, and places that are kept.
         * While the device is kept for a tier, an owed turn can be the only work on it; and the turn of a lower tier's
         * minimum takes a place of the highest tier. */
        size_t n_awaited = harness_count_awaited(h, top),
               n_kept = count_kept(h, top, false) + (minima ? count_kept(h, POLICY_PRIORITY_MIN - 1, true) : 0);
        if (n_running < should &&
                        (harness_may_await_above(h, top) ||
                                        (n_awaited > 0 && n_running + n_awaited + n_kept + n_owed + minima >= should)))
                h->seen.n_awaited++;
        else if (n_running < should && n_kept > 0 && n_running + n_kept + n_owed + (guaranteed != NULL) >= should)
                h->seen.n_kept++;
        else if (n_running < should &&
                        !(minima && n_running + 1 == should && n_running + n_owed + (guaranteed != NULL) >= should)) {
                CHECK(h, n_running + n_owed <= (minima ? 2U : 1U) && may_linger(h, top));
                h->seen.n_lingered++;
        }
        h->seen.n_owed += n_owed > 0;
        h->seen.n_contended += n_top > h->config.concurrency;
}

static void note_contention(Harness *h) {
        int highest = highest_priority(h, false);

        if (highest != h->highest) {
                h->contended_ns = 0;
                h->highest_since_ns = h->now_ns;
        }
        harness_note_crowd(h, highest, count_ready(h, highest, false) > h->config.concurrency);
        h->highest = highest;
        /* The harness cannot see whether a place is kept, nor whether a held job with a maximum is stopped. */
        if (count_may_be_ready(h, highest) + count_kept(h, highest, false) > h->config.concurrency)
                h->may_be_contended_ns = h->now_ns;
}

/* Whether the tier's places are all taken or may be kept, and other jobs wanted them shortly before, or the tier was
 * not the highest. */
static bool is_taken(const Harness *h, int tier) {
        size_t n = count_ready(h, tier, true) + count_kept(h, tier, false) + harness_count_awaited(h, tier) + h->minima;

        return n >= h->config.concurrency && h->now_ns < MAX(h->may_be_contended_ns, h->highest_since_ns) + RECENT_NS;
}

static void check_idle(Harness *h) {
        int highest = h->highest, top = h->top_level;
        bool nobody_ready = top < POLICY_PRIORITY_MIN;
        size_t n_idle = 0, n_advanced = 0, n_others = 0, n_tails = 0, n_stand = 0,
               n_kept = count_kept(h, POLICY_PRIORITY_MIN - 1, true);

        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];

                if (j->ready)
                        continue;
                CHECK(h, j->drain_order == 0 || j->grant.verdict == VERDICT_HOLD);
                n_tails += j->drain_order > 0;
                if (j->level == highest) {
                        n_idle++;
                        n_advanced += j->grant.verdict == VERDICT_RUN;
                        n_stand += j->grant.verdict == VERDICT_RUN && harness_may_stand(h, j);
                } else if (j->grant.verdict == VERDICT_RUN) {
                        n_others++;
                        CHECK(h, j->idle_from_run_ns != NSEC_INFINITY);
                        CHECK(h, nobody_ready || j->level > top || j->may_be_kept || h->maxima);
                }
        }
        h->seen.n_many_idle += n_idle > POLICY_ADVANCE_MAX;

        /* One more idle job may be granted as the last runner, or as the job lingered for; and as many as there are
         * places may be granted because places are kept for them. */
        n_kept = MIN(n_kept, (size_t) h->config.concurrency + 1);
        bool missed = highest >= POLICY_PRIORITY_MIN &&
                        h->maybe_missed[highest - POLICY_PRIORITY_MIN] >= POLICY_ADVANCE_MISSES;
        CHECK(h,
                        h->maxima || is_taken(h, highest) || highest < h->outside || missed ||
                                        n_advanced + n_tails >= MIN(n_idle, (size_t) POLICY_ADVANCE_MAX));
        CHECK(h, n_advanced - n_stand + n_others <= MIN(n_idle, (size_t) POLICY_ADVANCE_MAX) + 1 + n_kept);
        h->seen.n_stand += n_advanced > POLICY_ADVANCE_MAX + 1 + n_kept;
        h->n_stood = n_stand;
}

/* The policy asks for no wake-up where time alone changes nothing: no job is held, none will be held at the end of an
 * owed turn, and none waits for the end of a tail. */
static void check_wake(const Harness *h) {
        int top = h->top_level;
        size_t n_top = count_ready(h, top, false), n_ready = 0;
        /* In the turn of a minimum; tree keeps nothing below its top level then. */
        bool in_turn = h->ops != &policy_tree_ops && h->minima;
        int kept_from = in_turn ? POLICY_LEVEL_NONE : top - 1;
        bool tails = false;

        for (size_t i = 0; i < h->n; i++) {
                n_ready += h->jobs[i]->ready;
                tails = tails || h->jobs[i]->drain_order > 0;
        }
        CHECK(h, h->wake_ns > h->now_ns);
        if (n_ready == n_top && n_ready <= h->config.concurrency && !may_linger(h, kept_from) && !tails && !h->maxima)
                CHECK(h, h->wake_ns == NSEC_INFINITY);
        if (n_ready > 0 && count_ready(h, top, true) == 0 && h->outside == POLICY_LEVEL_NONE)
                CHECK(h, h->wake_ns != NSEC_INFINITY);
}

/* No job waits for ever, whatever the other jobs have. */
static void check_bounded_wait(Harness *h) {
        if (h->floors_changed)
                harness_note_floors(h);
        h->floors_changed = false;
        if (h->late || h->reconfigured || h->config.starve_run_ns == 0)
                return;
        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->ready && h->jobs[i]->grant.verdict == VERDICT_HOLD && !h->jobs[i]->is_limited)
                        CHECK(h, h->now_ns - h->jobs[i]->held_since_ns <= harness_longest_wait(h, h->jobs[i]));
}

static void check_oracle(const Harness *h) {
        CHECK(h, h->n_got == h->n_want);
        for (size_t i = 0; i < h->n_got; i++) {
                CHECK(h, h->got[i].job == h->want[i].job);
                CHECK(h, h->got[i].grant.verdict == h->want[i].grant.verdict);
                CHECK(h, h->got[i].grant.threshold == h->want[i].grant.threshold);
        }
}

/* Grants that stood were not taken back earlier, and may end at once. */
static size_t grants_bound(const Harness *h) {
        return 2 * (2 * (size_t) h->config.concurrency + POLICY_ADVANCE_MAX + 4) + h->n_new + h->n_stood;
}

static void dispatch_both(Harness *h) {
        h->wake_ns = h->ops->dispatch(h->policy, h->now_ns);
        if (h->oracle) {
                uint64_t wake_ns = policy_naive_ops.dispatch(h->oracle, h->now_ns);

                check_oracle(h);
                CHECK(h, h->wake_ns == wake_ns);
                CHECK(h, policy_latest(h->policy) == naive_latest(h->oracle));
        }
        CHECK(h, policy_latest(h->policy) >= h->wake_ns);
}

/* Without `tails` a held job drains at once. */
static bool end_tails(Harness *h) {
        bool any = false;

        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->drain_order > 0) {
                        h->seen.n_tails++;
                        if (!h->tails)
                                harness_drained(h->jobs[i]);
                        any = true;
                }
        return any && !h->tails;
}

void harness_dispatch(Harness *h) {
        h->step++;
        h->n_got = h->n_want = 0;
        do
                dispatch_both(h);
        while (end_tails(h));
        h->seen.n_dispatched++;
        h->seen.n_grants += h->n_got;
        if (!h->reconfigured)
                CHECK(h, h->n_got <= grants_bound(h));
        h->n_new = 0;
        look_at_jobs(h);
        check_running(h);
        note_contention(h);
        check_idle(h);
        harness_check_thresholds(h);
        check_wake(h);
        harness_check_usage(h);
        check_bounded_wait(h);

        /* A second dispatch at the same time changes nothing. */
        size_t n_got = h->n_got;
        CHECK(h, h->ops->dispatch(h->policy, h->now_ns) == h->wake_ns);
        CHECK(h, h->n_got == n_got);
}
