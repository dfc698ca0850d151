/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Policy: decides which entities run now
 *
 * Everything in policy/ is pure: no I/O, no clock, no bus, no HAL, no global state. One Policy instance decides for one
 * device. The caller owns time (`now_ns`, CLOCK_MONOTONIC, never going back between calls), tells the instance of
 * events (an entity came, went, became ready, became idle, was reconfigured) and then calls policy_dispatch(), which
 * reports every grant that CHANGED through PolicyCallbacks.grant, and returns when it wants to be called again.
 *
 * Going away clears no debt: neither of an entity that becomes idle or is stopped, nor of a named node that is freed
 * and made again.
 *
 * An entity gets one verdict: a leaf group on this device, a client or a queue with an override of its own. A policy
 * only passes on the caller's pointer to it (`owner`).
 *
 * A node is a group of entities and of other nodes, at most POLICY_DEPTH_MAX deep; entities without one are below the
 * root. Its weight counts among the nodes and entities beside it. Its `max` stops everything below it that has run for
 * that part of a period, until the next period begins. Its `min` is guaranteed to everything below it together,
 * whatever the priorities and weights, as far as the limits above allow.
 *
 * A policy is the core, which all share, and an ordering (order.h), which gives each entity a level, and says which
 * entity of a level is next. In `tree` the level is the priority. All entities of one level are a tier.
 *
 * Contract, checked by the property tests for every policy:
 *   - among READY entities, those with VERDICT_RUN are at most `concurrency` (plus those that the starvation floor lets
 *     in), and never of two tiers at once, except in a turn of a node that is owed its minimum;
 *   - work-conserving: while an entity is ready and not stopped by a maximum, a ready entity runs, or the device
 *     is kept for one that ran and became idle at most linger_ns ago: from lower tiers, or from others of its own
 *     where their weights differ or it is owed more than a slice (keep.h). Where all weights are equal and none is
 *     owed that much, equals are not kept waiting. Where an entity of a higher level has another device, none of a
 *     lower one need run on this (outside()). But an entity is granted only when tails of its own and higher levels
 *     leave it a place, or after POLICY_TAIL_WAIT: until then the tails have the device. Turns of minima wait for all
 *     tails, and all wait for theirs (drain.h);
 *   - no entity runs that is stopped by a maximum, its own or one above;
 *   - idle entities: an entity of the highest tier registered is granted in advance (its first launch must not wait for
 *     a round trip), but at most POLICY_ADVANCE_MAX entities of that tier, the most recent ones, and not while all
 *     places have entities of it, and others of it wanted them shortly before: their launches must not land in that
 *     turn; nor when the last POLICY_ADVANCE_MISSES entities of it that became ready were not among those: such grants
 *     go to the wrong ones, and each costs two words of a page. Where the tier has more than POLICY_ADVANCE_MAX
 *     entities that hardly contend, an idle one that has a grant keeps it until somebody has a claim (standing.h).
 *     The last runner keeps its grant while it is idle and no other is ready; every other idle entity of a contended
 *     device is held;
 *   - one event costs O(log n) in the number of ready entities, and O(POLICY_ADVANCE_MAX) grants; the end of standing
 *     grants costs one each, which was saved before, and one event ends at most POLICY_STANDING_MAX;
 *   - a ready entity that no maximum stops is held for no longer than floor.h says, whatever other parties have;
 *   - an entity that is alone on the device, and below no maximum, is granted without a threshold.
 *
 * Time. An entity's run time is the time in which the device had its work: while it is ready and granted, and no
 * earlier launches of others are in its way; and after a hold, or another stop, until its launches have ended, which
 * the caller tells with entity_drained() (drain.h bounds an entity that never drains). Where another entity is granted
 * meanwhile, the caller may divide the time between the two: entity_tail_had(). Fair time, maxima and minima count run
 * time, not verdicts. Time for which a device is kept for an entity counts in its share, but not as run time. Events
 * carry the time at which they happened, which may be before the call: decisions made meanwhile are not changed, and a
 * `now_ns` before the latest known time is raised to it.
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
#define POLICY_DELAY_MAX        (3600 * NSEC_PER_SEC) /* longest deadline, and longest laxity */
#define POLICY_LEVEL_NONE       (POLICY_PRIORITY_MIN - 1)
#define POLICY_ADVANCE_MAX      8U
#define POLICY_ADVANCE_MISSES   16U
#define POLICY_STANDING_MAX     1024U
#define POLICY_CROWD_NS         NSEC_PER_MSEC /* standing.h */
#define POLICY_CROWD_PART       4U
#define POLICY_TRUST_PART       100U
#define POLICY_DEPTH_MAX        16U /* nodes on the way from an entity to the root */
#define POLICY_MAX_MAX          10000U
#define POLICY_MIN_MAX          100U
#define POLICY_PERIOD_MIN       NSEC_PER_MSEC
#define POLICY_PERIOD_MAX       (10 * NSEC_PER_SEC)
#define POLICY_PERIOD_DEFAULT   (100 * NSEC_PER_MSEC)

/* An entity that never reports the end of its launches is charged for this long; entities granted meanwhile are charged
 * only after it. */
#define POLICY_TAIL_MAX NSEC_PER_SEC

/* Longest wait of equals for a tail, from its begin, before they are granted. Longer than nearly all launches, and only
 * two turns and a half: a report that is lost, or withheld on purpose, costs others no more. */
#define POLICY_TAIL_WAIT (50 * NSEC_PER_MSEC)

/* A dispatch up to this much after the time asked for is late; after that the caller was absent. Shorter than the
 * service's leases, so that its grants were in force meanwhile. */
#define POLICY_LATE_MAX (500 * NSEC_PER_MSEC)

typedef struct Policy Policy;
typedef struct PolicyEntity PolicyEntity;
typedef struct PolicyNode PolicyNode;

/* Owner of an entity, for turns of the starvation floor: each `top` gets equally many, within it each `owner`, then
 * each node on the way down, and within a node each `user`. The caller defines the numbers. */
typedef struct PolicyParty {
        uint64_t top, owner, user;
} PolicyParty;

typedef struct PolicySettings {
        int priority;          /* POLICY_PRIORITY_MIN..MAX, higher runs first */
        uint32_t weight;       /* POLICY_WEIGHT_MIN..MAX */
        uint32_t threshold;    /* in-flight bound while others have a claim; 0: the device's default */
        bool threshold_lowers; /* where the device's default is less, that counts */

        PolicyParty party;

        /* Settings that only policies other than `tree` use. */
        uint32_t deadline_us; /* relative to becoming ready; 0: none */
        uint32_t laxity_us;   /* longest wait before its priority becomes `critical`; 0: unlimited */
        int critical;         /* POLICY_PRIORITY_MIN..MAX */
        uint32_t utilization; /* percent of the entity for its node as a whole; 1..POLICY_WEIGHT_MAX */
        int nice;             /* steps of priority above the entity for its node as a whole */
        int cpu_priority;     /* of the process: its negated nice value, or 20 plus its real-time priority */
        bool active;          /* a user has it in the foreground */

        /* How the caller carries out a hold; no policy reads these. */
        Preemption preemption;
        bool gang;

        /* Of a group: the caller applies them to its node; no policy reads them here. */
        uint32_t max, min;
        uint32_t period_us;
} PolicySettings;

#define POLICY_SETTINGS_DEFAULT                                                                                        \
        ((PolicySettings){                                                                                             \
                        .priority = POLICY_PRIORITY_DEFAULT,                                                           \
                        .weight = POLICY_WEIGHT_DEFAULT,                                                               \
                        .utilization = POLICY_UTILIZATION_MAX,                                                         \
                        .period_us = POLICY_PERIOD_DEFAULT / NSEC_PER_USEC,                                            \
        })

typedef struct PolicyNodeSettings {
        uint32_t weight;    /* POLICY_WEIGHT_MIN..MAX */
        uint32_t max;       /* percent of a period on one place, 1..POLICY_MAX_MAX; 0: no limit */
        uint32_t min;       /* percent of the time on one place, 0..POLICY_MIN_MAX */
        uint64_t period_ns; /* POLICY_PERIOD_MIN..MAX */

        /* Settings that only policies other than `tree` use, instead of the weight or with it. */
        uint32_t utilization; /* percent, 1..POLICY_UTILIZATION_MAX */
        int nice;             /* its priority; POLICY_NICE_MIN..MAX count */

        /* For node_new(), which copies it. Unique below its parent. NULL: a later node does not find this one's
         * debts. */
        const char *name;
} PolicyNodeSettings;

#define POLICY_NODE_SETTINGS_DEFAULT                                                                                   \
        ((PolicyNodeSettings){                                                                                         \
                        .weight = POLICY_WEIGHT_DEFAULT,                                                               \
                        .period_ns = POLICY_PERIOD_DEFAULT,                                                            \
                        .utilization = POLICY_UTILIZATION_MAX,                                                         \
        })

typedef struct PolicyConfig {
        uint32_t concurrency;  /* entities that run at once; 1 or more */
        uint64_t timeslice_ns; /* between equals; not scaled by weights, which act through virtual time */
        uint64_t starve_ns;    /* a ready entity held for this long is owed a turn whatever the priorities; floor.h says
                                * how soon */
        uint64_t starve_run_ns; /* how long such a turn is. At most one owed turn per starve period and device, so that
                                 * the floor costs starve_run_ns/starve_ns of the device and no more; 0: no
                                 * floor */
        uint64_t linger_ns;     /* at most this long a device is kept for an entity that has just become idle and whose
                                 * recent gaps were shorter, from lower tiers and from equals; 0: no anticipation */
        uint32_t threshold;     /* default in-flight bound of an entity while others have a claim */
} PolicyConfig;

#define POLICY_CONFIG_DEFAULT                                                                                          \
        ((PolicyConfig){                                                                                               \
                        .concurrency = 1,                                                                              \
                        .timeslice_ns = 20 * NSEC_PER_MSEC,                                                            \
                        .starve_ns = 1 * NSEC_PER_SEC,                                                                 \
                        .starve_run_ns = 10 * NSEC_PER_MSEC,                                                           \
                        .linger_ns = 1 * NSEC_PER_MSEC,                                                                \
                        .threshold = 1,                                                                                \
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

/* Usage of an entity; every counter only grows. */
typedef struct PolicyUsage {
        uint64_t run_ns;        /* the device had its work: see "Time" above */
        uint64_t kept_ns;       /* idle, while the device was kept for it and others wanted it */
        uint64_t wait_ns;       /* ready, while the device had others' work */
        uint64_t drain_wait_ns; /* part of that: its turn had come, but others' launches were in flight */
        uint64_t n_preempted;   /* times it lost its grant while ready */
} PolicyUsage;

/* Usage of a device; every counter only grows. The sum is the time in which any entity was registered. */
typedef struct PolicyDeviceUsage {
        uint64_t busy_ns; /* run time of any entity */
        uint64_t kept_ns; /* unused, though an entity without a used-up maximum wanted it: anticipation and hand-over */
        uint64_t idle_ns; /* no entity wanted it, or none might run */
} PolicyDeviceUsage;

/* An entity that is ready and held. */
typedef struct PolicyWait {
        uint64_t since_ns;
        const PolicyNode *stopped_by; /* node whose used-up maximum stops it; NULL: none, others run */
        uint64_t until_ns;            /* when `stopped_by` goes on */
        void *runner;                 /* owner of a ready entity that runs; NULL: none */
} PolicyWait;

/* One policy, as one const table: DEFINE_POLICY() in core.h makes it from an ordering. All entries are mandatory.
 * Functions that return int return 0 or a negative errno; only those can fail, with -ENOMEM (or -EINVAL for a
 * configuration that makes no sense, or for a node too deep). Values out of range are taken for the nearest that is in
 * range. */
typedef struct PolicyOps {
        const struct OrderOps *ordering; /* order.h; policy.c has accessors for the caller */
        const char *name;
        const char *description; /* one line, for `xschedctl list-policies` */

        int (*new)(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret);
        Policy *(*free)(Policy *p); /* entities must be gone; returns NULL */
        int (*configure)(Policy *p, const PolicyConfig *config, uint64_t now_ns);

        /* `parent` NULL: below the root. Free a node after everything below it. Its debts are kept under its name, and
         * count for the next node of that name below the same parent: debt.h. */
        int (*node_new)(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now_ns, PolicyNode **ret);
        PolicyNode *(*node_free)(PolicyNode *n, uint64_t now_ns); /* returns NULL */
        void (*node_configure)(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now_ns);

        int (*entity_new)(Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now_ns,
                        PolicyEntity **ret);
        PolicyEntity *(*entity_free)(PolicyEntity *e, uint64_t now_ns); /* in any state; returns NULL */
        void (*entity_configure)(PolicyEntity *e, const PolicySettings *s, uint64_t now_ns);
        int (*entity_move)(PolicyEntity *e, PolicyNode *to, uint64_t now_ns); /* NULL: to the root */
        void (*entity_ready)(PolicyEntity *e, uint64_t now_ns);               /* idempotent */
        void (*entity_idle)(PolicyEntity *e, uint64_t now_ns);                /* idempotent */
        void (*entity_drained)(PolicyEntity *e,
                        uint64_t now_ns); /* idempotent: all launches from before its hold have ended */

        /* It was stopped with launches in flight, though it is idle, or was held without any. Lasts until
         * entity_drained(), a grant, or its end: drain.h. Idempotent; no effect on an entity that runs. */
        void (*entity_tail)(PolicyEntity *e, uint64_t now_ns);

        /* Divides the time since the last call of any kind: the launches of its tail had the device for the first
         * `ns` of it, and the granted entity that waits for the tail had it for the rest. Time that is not divided is
         * the tail's. No effect unless the tail has the device, and an entity is granted beside it: drain.h. */
        void (*entity_tail_had)(PolicyEntity *e, uint64_t ns, uint64_t now_ns);
        void (*entity_usage)(const PolicyEntity *e, uint64_t now_ns, PolicyUsage *ret);
        bool (*entity_wait)(const PolicyEntity *e, PolicyWait *ret); /* false: it does not wait */

        void (*device_usage)(const Policy *p, uint64_t now_ns, PolicyDeviceUsage *ret);

        /* For policies that go over several devices. level() returns the highest level of an entity here that could
         * run, or POLICY_LEVEL_NONE; it may change by any event and dispatch. outside() tells that of all other devices
         * with this policy; entities below it are held here. In other policies level() has no meaning, and outside() no
         * effect. */
        int (*level)(const Policy *p);
        void (*outside)(Policy *p, int level, uint64_t now_ns);

        /* Decides. Returns when to be called again without an event: CLOCK_MONOTONIC ns, or NSEC_INFINITY. It is
         * NSEC_INFINITY whenever at most one entity is ready, and none lingers or drains, so that an idle service does
         * not wake up. May be called at any other time, too: state that lapses without a wake-up, like a threshold some
         * time after its reason, is updated then. */
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

/* By when dispatch() is to be called at the latest: mostly what it has returned. Later where that is the end of a wait
 * for an entity of a higher tier, by 1/POLICY_TRUST_PART of all the gaps in which the entity was expected back since it
 * was last not back in time. So others lose at most that part of the time to calls that come late, and none where an
 * entity often stays away. */
uint64_t policy_latest(const Policy *p);

/* Whether the entity runs by a turn of the floor: priorities have no say in that, neither of entities that are there
 * nor of those that are expected. */
bool policy_is_owed(const PolicyEntity *e);

/* Have the CPU fetch what calls for the entity are about to read: its own memory, which may be freed meanwhile; and
 * what it refers to. */
void policy_fetch(uintptr_t entity);
void policy_fetch_more(const PolicyEntity *e);

/* Whether the policy goes over several devices: PolicyOps.level(), outside(). */
bool policy_is_global(const PolicyOps *ops);

/* Whether the policy schedules processes (cpu_priority, active, or its part of the time): then each process has to be
 * an entity, with all its queues. */
bool policy_is_by_process(const PolicyOps *ops);

/* NULL when there is no such policy. XSched writes the names in capitals, so the case does not matter. */
const PolicyOps *policy_find(const char *name);
