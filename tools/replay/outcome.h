/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Outcome: how long each tenant of each device ran and waited, and when
 *
 * A tenant is a group, a process or a queue that has its own verdict on a device. All entities of one name, one after
 * the other, are one tenant; each entity is a Stint of it. A burst lasts from when an entity becomes ready until it
 * becomes idle, or ends.
 */

#include <stdio.h>
#include <uthash.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "policy/policy.h"

/* A node or a tenant, which has a weight among its siblings. */
typedef struct Asker {
        char *key;
        struct Asker *above; /* NULL: the device */
        double weight, below;
        UT_hash_handle hh;
} Asker;

typedef struct Tenant {
        char *key, *device, *group;
        uint64_t pid, queue;
        size_t place; /* in the order in which they came */

        uint64_t n_bursts, run_ns, wait_ns, n_preempted;
        uint64_t *waits; /* ns from ready to run, of each burst that ran */
        size_t n_waits;
        Asker *asker; /* NULL: it never had work */
        UT_hash_handle hh;
} Tenant;

typedef struct Interval {
        uint64_t begin_ns, end_ns;
        size_t tenant;
        bool ran; /* else it waited */
} Interval;

typedef struct Outcome {
        Tenant *tenants; /* uthash, in the order of their places */
        Asker *askers;   /* uthash, by the way to them */
        Interval *intervals;
        size_t n_intervals;
        bool failed; /* memory ran out */
        uint64_t begin_ns, end_ns;
} Outcome;

/* One entity, which begins with a grant. */
typedef struct Stint {
        Outcome *outcome;
        Tenant *tenant;
        bool ready, granted, ran;
        uint64_t ready_ns, since_ns;
} Stint;

void outcome_done(Outcome *o);

/* 0 or -ENOMEM. */
int stint_begin(Outcome *o, const char *device, const char *group, uint64_t pid, uint64_t queue, Stint *ret);
void stint_ready(Stint *s, uint64_t at_ns);
void stint_idle(Stint *s, uint64_t at_ns);
void stint_granted(Stint *s, bool granted, uint64_t at_ns);
void stint_end(Stint *s, const PolicyUsage *usage, uint64_t at_ns); /* all that it used */

/* The path from the device to a tenant that has work: names and weights. Only the first path of a tenant counts. */
typedef struct AskStep {
        const char *name; /* NULL: none */
        uint64_t id;      /* if there is no name, the id tells it from others */
        uint32_t weight;
} AskStep;

void stint_asks(Stint *s, const AskStep *steps, size_t n, uint32_t weight);

/* Returns the tenant's part of the device by weights alone, if all tenants that ever had work wanted it all the
 * time. */
double tenant_asked(const Tenant *t);

/* Returns the percentile (0..100) of sorted waits; 0 if there are none. */
uint64_t tenant_wait(const Tenant *t, unsigned percent);
void outcome_sort(Outcome *o);

/* Returns the run time of all tenants of that device. */
uint64_t outcome_device_run(const Outcome *o, const char *device);
