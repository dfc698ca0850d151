/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A policy under test, its contract, and its oracle
 *
 * The harness drives the policy and the oracle side by side with the same events and checks after every dispatch that
 * both reported the same grants in the same order and asked for the same wake-up, and, independently of the oracle,
 * every invariant that policy.h promises. A check that fails names the seed and the step, by which it can be repeated.
 */

#include "policy/policy.h"

#define HARNESS_JOBS_MAX  128U
#define HARNESS_NODES_MAX 64U

typedef struct Random {
        uint64_t state;
} Random;

uint64_t random_next(Random *r);

/* lo..hi, both included. */
uint64_t random_range(Random *r, uint64_t lo, uint64_t hi);

static inline bool random_chance(Random *r, unsigned percent) {
        return random_range(r, 0, 99) < percent;
}

/* A number of lo..hi whose order of magnitude is random, too. */
uint64_t random_log(Random *r, uint64_t lo, uint64_t hi);

typedef struct Harness Harness;

typedef struct HarnessNode HarnessNode;

struct HarnessNode {
        Harness *h;
        PolicyNode *node, *twin; /* in the policy, in the oracle */
        HarnessNode *parent;     /* NULL: the root */
        PolicyNodeSettings settings;
        uint64_t run_ns; /* of everything below, a place counts once */
        bool came_back;
};

typedef struct Job {
        Harness *h;
        HarnessNode *node;
        PolicyEntity *entity, *twin; /* in the policy, in the oracle */
        PolicySettings settings;
        bool ready;
        PolicyGrant grant;
        uint64_t held_since_ns;    /* ready and held since */
        uint64_t granted_ns;       /* last change to run */
        uint64_t waited_ns;        /* its waiting time at that change */
        uint64_t idle_since_ns;    /* NSEC_INFINITY: never ready */
        uint64_t idle_from_run_ns; /* last time it became idle while granted; NSEC_INFINITY: never */
        uint64_t grant_order;      /* of the last change to run, the later the higher */
        uint64_t drain_order;      /* order of the hold since which it drains; 0: it does not drain */
        uint64_t drain_until_ns;   /* end of the time in which its tail counts */
        uint64_t granted_step;     /* when it was last granted while it was ready, ... */
        bool granted_from_tail;    /* ... and whether it drained then */
        uint64_t ready_ns;         /* expected accounts: ready time in all, ... */
        PolicyUsage usage;         /* ... and its parts */

        /* Set when a dispatch is checked, during which none of these changes. */
        int level;        /* job_level() */
        bool is_limited;  /* the job's path has a maximum */
        bool counts;      /* the job surely counts as ready: it has work, and no maximum stops it */
        bool may_be_kept; /* a place may be kept empty for this job: it ran, and stopped at most linger_ns ago */
} Job;

typedef struct HarnessGrant {
        Job *job;
        PolicyGrant grant;
} HarnessGrant;

/* A floor by the path to it from the root, and the number of floors right below it. */
#define HARNESS_FLOORS (POLICY_DEPTH_MAX + 3)

typedef struct HarnessPath {
        const HarnessNode *node[HARNESS_FLOORS];
        uint64_t user[HARNESS_FLOORS];
        size_t n;
} HarnessPath;

/* Equals that contended within this time keep their thresholds. */
#define RECENT_NS (100 * NSEC_PER_MSEC)

typedef struct HarnessFloor {
        HarnessPath path;
        uint64_t n, n_most;
} HarnessFloor;

/* Counts of events, by which a test can check that its scenario occurred. */
typedef struct HarnessSeen {
        uint64_t n_dispatched, n_grants, n_preempted, n_owed, n_lingered, n_contended, n_many_idle, n_stopped,
                        n_guaranteed, n_kept, n_tails, n_came_back, n_awaited, n_stand, n_divided;
} HarnessSeen;

struct Harness {
        const PolicyOps *ops;
        Policy *policy, *oracle; /* oracle may be NULL */
        PolicyConfig config;
        uint64_t seed, step, now_ns, wake_ns;
        Job *jobs[HARNESS_JOBS_MAX];
        size_t n;
        HarnessNode *nodes[HARNESS_NODES_MAX];
        size_t n_nodes;

        HarnessGrant got[HARNESS_JOBS_MAX * 2], want[HARNESS_JOBS_MAX * 2];
        size_t n_got, n_want, n_new;
        size_t n_stood; /* idle jobs with grants that may have stood, after the last dispatch */

        bool late;           /* a dispatch came later than asked for: bounds on time do not hold */
        bool reconfigured;   /* times were changed under way: bounds on time do not hold */
        int highest;         /* priority registered */
        int top_level;       /* highest level of a job that counts, while a dispatch is checked */
        bool minima, maxima; /* any node has one, while a dispatch is checked */
        int outside;         /* highest priority on other devices */
        uint64_t highest_since_ns;
        unsigned maybe_missed[POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1]; /* who came in a row, of each level, when
                                                                                 not all could be granted in advance */
        uint64_t may_be_contended_ns; /* contended_ns, if jobs for which a place may be kept counted as ready */
        uint64_t contended_ns;        /* when more than `concurrency` of them were last ready */
        uint64_t contending_since_ns; /* since when they are; 0: they are not */
        uint64_t crowded_ns;          /* when they were last for twice POLICY_CROWD_NS */
        HarnessFloor *floors;
        size_t n_floors;
        bool floors_changed;

        bool tails;     /* a held job drains by harness_drained(), and not at once */
        uint64_t order; /* counts the jobs' events */
        PolicyDeviceUsage usage;
        const Job *owed;
        uint64_t owed_since_ns;
        HarnessSeen seen;
};

Harness *harness_new(const PolicyConfig *config, bool with_oracle, uint64_t seed);
Harness *harness_new_policy(const PolicyOps *ops, const PolicyConfig *config, bool with_oracle, uint64_t seed);
Harness *harness_free(Harness *h);
DEFINE_TRIVIAL_CLEANUP_FUNC(Harness *, harness_free)

/* Events at h->now_ns; harness_dispatch() must follow before the harness is asked about grants. */
Job *harness_add(Harness *h, PolicySettings s);
Job *harness_add_below(Harness *h, HarnessNode *node, PolicySettings s);
void harness_move(Job *j, HarnessNode *to);

HarnessNode *harness_add_node(Harness *h, HarnessNode *parent, PolicyNodeSettings s);
bool harness_node_is_empty(const HarnessNode *n);
void harness_remove_node(HarnessNode *n); /* of an empty node */
void harness_set_node(HarnessNode *n, PolicyNodeSettings s);
unsigned harness_node_depth(const HarnessNode *n); /* 0: NULL, the root */

void harness_remove(Job *j);
void harness_ready(Job *j);
void harness_idle(Job *j);
void harness_drained(Job *j);
void harness_tail(Job *j);
void harness_set(Job *j, PolicySettings s);
void harness_configure(Harness *h, const PolicyConfig *config);
void harness_outside(Harness *h, int level);

void harness_dispatch(Harness *h);

/* Counts the jobs beside each other on each level of the floor. The second returns the longest time that a job may be
 * held by these numbers. */
void harness_note_floors(Harness *h);
uint64_t harness_longest_wait(Harness *h, const Job *j);

/* policy-harness-awaited.c: counts the tier's tails that other jobs of the tier wait for. The second tells whether jobs
 * of a tier above may wait for tails, which a maximum may stop as well. */
size_t harness_count_awaited(const Harness *h, int priority);
bool harness_may_await_above(const Harness *h, int priority);

/* Checks that a job that has just been granted found a place free of other jobs and tails of its tier. Jobs that are
 * owed a turn are exempt. */
void harness_check_awaited(const Harness *h, int top, size_t n_running);

/* policy-harness-standing.c: notes how long the jobs of the highest level have contended; whether the idle job of that
 * level may keep its grant, beside those that are granted in advance; checks the thresholds of all. */
void harness_note_crowd(Harness *h, int highest, bool contends);
bool harness_may_stand(const Harness *h, const Job *j);
void harness_check_thresholds(const Harness *h);

/* policy-harness-usage.c: accounts the next `ns`, and checks that the policy's accounts agree. */
void harness_account(Harness *h, uint64_t ns);
void harness_check_usage(const Harness *h);

/* Moves time without a dispatch. */
void harness_pass(Harness *h, uint64_t ns);

/* Dispatches, moves time, and tells the policy that the job's tail had the first `had_ns` of it. */
void harness_tail_had(Job *j, uint64_t ns, uint64_t had_ns);

/* Moves time to now + ns, and dispatches at each wake-up that the policy asked for, and at the end. */
void harness_run(Harness *h, uint64_t ns);

static inline bool job_runs(const Job *j) {
        return j->ready && j->grant.verdict == VERDICT_RUN;
}

/* The job's level: its priority, or the oracle's level for other orderings. Only jobs of the highest level run. */
int job_level(const Job *j);

/* Fails the test, with the seed, unless `ok`. */
void harness_check(const Harness *h, bool ok, const char *what, int line);
#define CHECK(h, expr) harness_check(h, expr, #expr, __LINE__)
