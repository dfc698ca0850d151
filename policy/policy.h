/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Policies: who runs now
 *
 * Everything in policy/ is pure: no I/O, no clock, no bus, no HAL, no global state. One Policy instance decides for one
 * device. The caller owns time (`now_ns`, CLOCK_MONOTONIC, never going back between calls), tells the instance what
 * happened (an entity came, went, became ready, became idle, was reconfigured) and then calls policy_dispatch(), which
 * reports through PolicyCallbacks.grant every grant that CHANGED, and returns when it wants to be asked again.
 *
 * Going away washes nothing off: not an entity that is idle, nor one that is stopped, nor a node with a name that is
 * freed and made again.
 *
 * An entity is what gets one verdict: a leaf group on this device, a client with an override of its own, or an opted-in
 * queue. What it is made of is the caller's business (`owner`).
 *
 * A node is a group of entities and of other nodes, at most POLICY_DEPTH_MAX deep; entities without one are below the
 * root. Its weight counts among the nodes and entities beside it. Its `max` stops everything below it when that has run
 * for so much of a period, until the next one begins; its `min` is guaranteed to what is below it as a whole, whatever
 * the priorities and weights, as long as the limits above allow it.
 *
 * A policy is the core, which is the same for all, and an ordering (order.h), which says of each entity on which level
 * it is, and who of a level is next. Of `tree` the level is the priority. All entities of one level are a tier.
 *
 * Contract, checked by the property tests for every policy:
 *   - among READY entities, those with VERDICT_RUN are at most `concurrency` (plus those that the starvation floor lets
 *     in), and never of two tiers at once, but for one turn of a node that its minimum is owed;
 *   - work-conserving: while somebody is ready and not stopped by a maximum, somebody who is ready runs, or the device
 *     is kept for somebody who ran and became idle at most linger_ns ago: from lower tiers, or from others of its own
 *     where their weights differ or it is owed more than a slice (keep.h). Where all weights are equal and nobody is
 *     owed so much, equals are not kept waiting. Where somebody of a higher level has another device, nobody of a
 *     lower one needs to run on this (outside()). But who is chosen among equals is granted only when their tails leave
 *     him a place, or after POLICY_TAIL_WAIT: until then it is they who have the device (drain.h);
 *   - nobody runs who is stopped by a maximum, its own or one above;
 *   - idle entities: an entity of the highest tier registered is granted in advance (its first launch must not wait for
 *     a round trip), but for at most POLICY_ADVANCE_MAX entities of that tier, and not while all places have somebody
 *     of it, and others of it wanted them shortly before: their launches are not to land in his turn. Whoever ran last
 *     keeps its grant while it is idle and nobody else is ready; every other idle entity of a contended device is held;
 *   - one event costs O(log n) in the number of ready entities, and O(POLICY_ADVANCE_MAX) grants;
 *   - a ready entity that no maximum stops is held for no longer than floor.h says, whatever other parties have;
 *   - an entity that is alone on the device, and below no maximum, is granted without a threshold.
 *
 * Time. An entity's run time is the time in which the device had its work: while it is ready and granted, and nobody's
 * launches from before are in its way; and after a hold, or when it may not go on for another reason, until what it had
 * launched is over, which the caller says with entity_drained() (drain.h says what becomes of who is never said to have
 * drained). Fair time, maxima and minima count that, and never what a verdict said. What a device is kept for somebody
 * is a part of his share, though not of his run time. Events carry the time at which they happened, which may be before
 * that of the call: what has been decided meanwhile stands, and `now_ns` is taken for the latest known time where it
 * lies before that.
 *
 * Thread safety: none; one instance belongs to one thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "common/verdict.h"
#include "policy/preemption.h"

#define POLICY_PRIORITY_MIN     (-255)
#define POLICY_PRIORITY_MAX     255
#define POLICY_PRIORITY_DEFAULT 0
#define POLICY_WEIGHT_MIN       1U
#define POLICY_WEIGHT_MAX       10000U
#define POLICY_WEIGHT_DEFAULT   100U
#define POLICY_UTILIZATION_MAX  100U
#define POLICY_NICE_MIN         (-20)
#define POLICY_NICE_MAX         19
#define POLICY_DELAY_MAX        (3600 * NSEC_PER_SEC) /* of a deadline, and of a laxity */
#define POLICY_LEVEL_NONE       (POLICY_PRIORITY_MIN - 1)
#define POLICY_ADVANCE_MAX      8U
#define POLICY_DEPTH_MAX        16U /* nodes on the way from an entity to the root */
#define POLICY_MAX_MAX          10000U
#define POLICY_MIN_MAX          100U
#define POLICY_PERIOD_MIN       NSEC_PER_MSEC
#define POLICY_PERIOD_MAX       (10 * NSEC_PER_SEC)
#define POLICY_PERIOD_DEFAULT   (100 * NSEC_PER_MSEC)

/* Who does not say that what he has in flight is over is charged for so long, and those who were granted meanwhile from
 * then on. */
#define POLICY_TAIL_MAX NSEC_PER_SEC

/* For so long, from when it began, equals wait for a tail before they are granted. It is longer than nearly all
 * launches, and as short as two turns and a half: by a word that was lost, or is kept back on purpose, nobody loses
 * more. */
#define POLICY_TAIL_WAIT (50 * NSEC_PER_MSEC)

/* Up to this much later than asked for a dispatch is late; after that the caller was absent. Less than the service's
 * leases last, so that what it granted was in force meanwhile. */
#define POLICY_LATE_MAX (500 * NSEC_PER_MSEC)

typedef struct Policy Policy;
typedef struct PolicyEntity PolicyEntity;
typedef struct PolicyNode PolicyNode;

/* Whose an entity is, for the turns of the starvation floor: they go to each `top` alike, within it to each `owner`,
 * then down the nodes, and within a node to each `user`. What the numbers mean is the caller's business. */
typedef struct PolicyParty {
        uint64_t top, owner, user;
} PolicyParty;

typedef struct PolicySettings {
        int priority;          /* POLICY_PRIORITY_MIN..MAX, higher runs first */
        uint32_t weight;       /* POLICY_WEIGHT_MIN..MAX */
        uint32_t threshold;    /* in-flight bound while others have a claim; 0: the device's default */
        bool threshold_lowers; /* where the device's default is less, that counts */

        PolicyParty party;

        /* What policies other than `tree` go by. */
        uint32_t deadline_us; /* to be done so long after it becomes ready; 0: none */
        uint32_t laxity_us;   /* may wait so long before its priority is `critical`; 0: for ever */
        int critical;         /* POLICY_PRIORITY_MIN..MAX */
        uint32_t utilization; /* percent of what stands for its node as a whole; 1..POLICY_WEIGHT_MAX */
        int nice;             /* steps of priority above what stands for its node as a whole */
        int cpu_priority; /* of the process: its nice value with the sign turned, or 20 and its real-time priority */
        bool active; /* it is in front of somebody */

        /* How a hold is carried out: the caller's business, no policy looks at it. */
        Preemption preemption;
        bool gang;

        /* Of a group: they count for its node, no policy looks at them here. */
        uint32_t max, min;
        uint32_t period_us;
} PolicySettings;

#define POLICY_SETTINGS_DEFAULT                                                                             \
        ((PolicySettings){                                                                                  \
                        .priority = POLICY_PRIORITY_DEFAULT,                                                \
                        .weight = POLICY_WEIGHT_DEFAULT,                                                    \
                        .utilization = POLICY_UTILIZATION_MAX,                                              \
                        .period_us = POLICY_PERIOD_DEFAULT / NSEC_PER_USEC,                                 \
        })

typedef struct PolicyNodeSettings {
        uint32_t weight;    /* POLICY_WEIGHT_MIN..MAX */
        uint32_t max;       /* percent of a period on one place, 1..POLICY_MAX_MAX; 0: no limit */
        uint32_t min;       /* percent of the time on one place, 0..POLICY_MIN_MAX */
        uint64_t period_ns; /* POLICY_PERIOD_MIN..MAX */

        /* What policies other than `tree` go by, in place of the weight or with it. */
        uint32_t utilization; /* percent, 1..POLICY_UTILIZATION_MAX */
        int nice;             /* its priority; POLICY_NICE_MIN..MAX count */

        /* For node_new(), which copies it; different from those beside it. NULL: it is not found again. */
        const char *name;
} PolicyNodeSettings;

#define POLICY_NODE_SETTINGS_DEFAULT                                                                        \
        ((PolicyNodeSettings){                                                                              \
                        .weight = POLICY_WEIGHT_DEFAULT,                                                    \
                        .period_ns = POLICY_PERIOD_DEFAULT,                                                 \
                        .utilization = POLICY_UTILIZATION_MAX,                                              \
        })

typedef struct PolicyConfig {
        uint32_t concurrency; /* entities that run at once; 1 or more */
        uint64_t timeslice_ns; /* between equals; scaled by nobody's weight: weights act through virtual time */
        uint64_t starve_ns; /* a ready entity that was held this long is owed a turn whatever the priorities; how soon it has it:
                                  * floor.h */
        uint64_t starve_run_ns; /* how long such a turn is. At most one owed turn per starve period and device, so that
                                  * the floor costs starve_run_ns/starve_ns of the device and no more; 0: no
                                  * floor */
        uint64_t linger_ns; /* at most this long a device is kept for an entity that has just become idle and whose
                                  * recent gaps were shorter, from lower tiers and from equals; 0 turns anticipation off */
        uint32_t threshold; /* default in-flight bound of entities that others have a claim against */
} PolicyConfig;

#define POLICY_CONFIG_DEFAULT                                                                               \
        ((PolicyConfig){                                                                                    \
                        .concurrency = 1,                                                                   \
                        .timeslice_ns = 20 * NSEC_PER_MSEC,                                                 \
                        .starve_ns = 1 * NSEC_PER_SEC,                                                      \
                        .starve_run_ns = 10 * NSEC_PER_MSEC,                                                \
                        .linger_ns = 1 * NSEC_PER_MSEC,                                                     \
                        .threshold = 1,                                                                     \
        })

typedef struct PolicyGrant {
        Verdict verdict;
        uint32_t threshold; /* 0: unlimited */
} PolicyGrant;

typedef struct PolicyCallbacks {
        /* Called from policy_dispatch() only, once per entity whose grant differs from the one last reported. A new
         * entity starts with { VERDICT_RUN, 0 }. Must not call back into the policy. */
        void (*grant)(void *owner, const PolicyGrant *grant, void *userdata);
        void *userdata;
} PolicyCallbacks;

/* Accounted per entity, monotonic. */
typedef struct PolicyUsage {
        uint64_t run_ns;        /* the device had its work: see "Time" above */
        uint64_t kept_ns;       /* idle, and the device was kept for it, while others wanted it */
        uint64_t wait_ns;       /* ready, and the device had other work than its own */
        uint64_t drain_wait_ns; /* of that: its turn had come, and what others had in flight was not over */
        uint64_t n_preempted;   /* times it lost its grant while ready */
} PolicyUsage;

/* Accounted per device, monotonic. The three make the time in which somebody was registered. */
typedef struct PolicyDeviceUsage {
        uint64_t busy_ns; /* somebody's run_ns */
        uint64_t kept_ns; /* nobody's, though somebody wanted it and no maximum stopped him: anticipation, and hand-over */
        uint64_t idle_ns; /* nobody wanted it, or nobody might */
} PolicyDeviceUsage;

/* An entity that is ready and held. */
typedef struct PolicyWait {
        uint64_t since_ns;
        const PolicyNode *
                        stopped_by; /* whose maximum is used up, its own or one above; NULL: none, others run */
        uint64_t until_ns;          /* when that one goes on */
        void *runner;               /* owner of one of those that run and are ready; NULL: none */
} PolicyWait;

/* One policy, as one const table: DEFINE_POLICY() in core.h makes it from an ordering. All entries are mandatory.
 * Functions that return int return 0 or a negative errno; only those can fail, with -ENOMEM (or -EINVAL for a
 * configuration that makes no sense, or for a node too deep). Values out of range are taken for the nearest that is in
 * range. */
typedef struct PolicyOps {
        const struct OrderOps *ordering; /* order.h; policy.c tells what of it the caller has to know */
        const char *name;
        const char *description; /* one line, for `xschedctl list-policies` */

        int (*new)(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret);
        Policy *(*free)(Policy *p); /* entities must be gone; returns NULL */
        int (*configure)(Policy *p, const PolicyConfig *config, uint64_t now_ns);

        /* `parent` NULL: below the root. A node goes after everything below it. What it owes is remembered by its
         * name, and counts for the next node of that name below the same parent: debt.h. */
        int (*node_new)(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns,
                        PolicyNode **ret);
        PolicyNode *(*node_free)(PolicyNode *n, uint64_t now_ns); /* returns NULL */
        void (*node_configure)(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns);

        int (*entity_new)(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                        PolicyEntity **ret);
        PolicyEntity *(*entity_free)(PolicyEntity *e, uint64_t now_ns); /* any state; returns NULL */
        void (*entity_configure)(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns);
        int (*entity_move)(PolicyEntity *e, PolicyNode *to, uint64_t now_ns); /* NULL: to the root */
        void (*entity_ready)(PolicyEntity *e, uint64_t now_ns);               /* idempotent */
        void (*entity_idle)(PolicyEntity *e, uint64_t now_ns);                /* idempotent */
        void (*entity_drained)(PolicyEntity *e,
                        uint64_t now_ns); /* idempotent: all that it had in flight when it was held is over */

        /* Something of it is in flight, though it is idle, or was held with nothing in flight: it was stopped.
         * Until entity_drained(), or it is granted, or goes: drain.h. Idempotent, and nothing where it runs. */
        void (*entity_tail)(PolicyEntity *e, uint64_t now_ns);
        void (*entity_usage)(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret);
        bool (*entity_wait)(const PolicyEntity *e, PolicyWait *ret); /* false: it does not wait */

        void (*device_usage)(const Policy *p, uint64_t now_ns, PolicyDeviceUsage *ret);

        /* Of a policy that goes over several devices: the highest level of somebody here who could run, which may be
         * another after any event and any dispatch, and POLICY_LEVEL_NONE where there is nobody; and that of all the
         * other devices with this policy. Those below that are held here. Of other policies the first means nothing,
         * and the second does nothing. */
        int (*level)(const Policy *p);
        void (*outside)(Policy *p, int level, uint64_t now_ns);

        /* Decide. Returns when to be called again without an event: CLOCK_MONOTONIC ns, NSEC_INFINITY for never (and it
         * is never whenever at most one entity is ready, and nothing lingers or drains: an idle service does not wake
         * up). May be called at any other time, too: what lapses without a wake-up, as a threshold does some time after
         * its reason has gone, is looked at then. */
        uint64_t (*dispatch)(Policy *p, uint64_t now_ns);
} PolicyOps;

extern const PolicyOps policy_tree_ops;
extern const PolicyOps policy_hpf_ops;
extern const PolicyOps policy_hhpf_ops;
extern const PolicyOps policy_chpf_ops;
extern const PolicyOps policy_up_ops;
extern const PolicyOps policy_pup_ops;
extern const PolicyOps policy_kedf_ops;
extern const PolicyOps policy_lax_ops;
extern const PolicyOps policy_awf_ops;
extern const PolicyOps policy_cfs_ops;
extern const PolicyOps policy_mlfq_ops;

/* NULL-terminated, the default first. */
extern const PolicyOps *const policy_all[];

/* It goes over several devices: PolicyOps.level(), outside(). */
bool policy_is_global(const PolicyOps *ops);

/* What is told of an entity (cpu_priority, active), or its part of the time, is a process's: each process is to be an
 * entity, with all its queues. */
bool policy_is_by_process(const PolicyOps *ops);

/* NULL when there is no such policy. */
const PolicyOps *policy_find(const char *name);
