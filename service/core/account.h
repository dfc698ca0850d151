/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Account: run time of an entity that is alone on its device
 *
 * Scheduling need not watch an entity that is alone on a device, or the only one at work there (DEVICE_ALONE,
 * DEVICE_SOLE), but unwatched time is not counted. So the entity is watched for its account, as far as Accounting=
 * says:
 *   exact    always.
 *   sampled  while watching costs at most 1/ACCOUNT_COST_SHARE of its time, by its launches and edges.
 *            An entity that launches more often is not watched for ACCOUNT_AWAY_NS on average, longer if the service is
 *            late, then watched for ACCOUNT_LEAD_NS + ACCOUNT_WINDOW_NS; estimate.h fills in the time between. The
 *            pauses have random lengths, so that no program's rhythm keeps in step with them.
 *   auto     as sampled, but the driver's count replaces the windows where there is one (account-driver.h).
 *   off      never.
 *
 * An idle entity is watched without a timer: its next launch is an edge, and the service sleeps until then.
 *
 * A client that miscounts here falsifies only its own numbers. With others the device is contended, and the policy
 * counts.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"
#include "policy/policy.h"
#include "service/settings/accounting.h"

#define ACCOUNT_LEAD_NS     (2 * NSEC_PER_MSEC) /* uncounted launches drain meanwhile */
#define ACCOUNT_WINDOW_NS   (8 * NSEC_PER_MSEC)
#define ACCOUNT_AWAY_NS     (1150 * NSEC_PER_MSEC)
#define ACCOUNT_DRIVER_NS   (1 * NSEC_PER_SEC)
#define ACCOUNT_AWAY_MAX_NS (60 * NSEC_PER_SEC)
#define ACCOUNT_LOOK_NS     (100 * NSEC_PER_MSEC) /* interval of checks whether watching costs too much */
#define ACCOUNT_LOOK_MAX_NS (10 * NSEC_PER_SEC)
#define ACCOUNT_LAUNCH_NS   NSEC_PER_USEC       /* what a tracked launch costs its process */
#define ACCOUNT_EDGE_NS     (4 * NSEC_PER_USEC) /* cost of an edge that the service hears */
#define ACCOUNT_COST_SHARE  100U                /* 1/100 */

typedef struct Device Device;
typedef struct Entity Entity;
typedef struct Group Group;

typedef enum AccountPhase {
        ACCOUNT_REST,    /* the state of the device says which slots are watched */
        ACCOUNT_WATCHED, /* the entity that is alone is watched */
        ACCOUNT_AWAY,    /* it is not watched, and will be later */
} AccountPhase;

/* Of a device. */
typedef struct DeviceAccount {
        AccountPhase phase;
        AccountSource source; /* how the entity that is alone is counted */
        Entity *away;
        uint64_t watched_since;
        bool led;         /* the lead is over: watched time counts */
        uint64_t at;      /* the next look; NSEC_INFINITY: none */
        uint64_t look_ns; /* ACCOUNT_LOOK_NS, and longer while nothing is launched */
        uint64_t since;   /* of the counts */
        uint64_t launches, edges, edges_seen;
        uint64_t random;

        /* Estimated time minus the policy's count; may be negative. */
        int64_t estimated_ns, away_estimated_ns;
        uint64_t told_busy_ns, told_kept_ns, told_idle_ns; /* these never go back */
} DeviceAccount;

#define DEVICE_ACCOUNT_NULL ((DeviceAccount){.at = NSEC_INFINITY})

/* Whether the entity that is alone is watched for its account. */
static inline bool account_watches(const DeviceAccount *a) {
        return a->phase == ACCOUNT_WATCHED;
}

/* Whether account_turn() has nothing to do unless an entity is alone. */
static inline bool account_rests(const DeviceAccount *a) {
        return a->phase == ACCOUNT_REST && !a->away && a->source == ACCOUNT_NONE;
}

/* Called when the device's state has changed, before its slots are written. */
void account_state_changed(Device *d, uint64_t now);

/* Called in each turn of the device, after its state is settled. */
void account_turn(Device *d, uint64_t now);

/* Called when the entity leaves the policy. */
void account_forget(Entity *e, uint64_t now);

/* Adds the estimate of unwatched time to the policy's counts in `u`. */
void account_device_usage(Device *d, uint64_t now, PolicyDeviceUsage *u);

/* How run time is counted: of an entity, and of a group with all groups below it. */
AccountSource account_entity_source(const Entity *e);
AccountSource account_group_source(const Group *g);
