/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Account: how the time of those is counted whom nobody has to watch
 *
 * Who is alone on a device, or is the only one at work there (DEVICE_ALONE, DEVICE_SOLE), is watched for the sake of
 * nobody, and what is not watched is not counted. So it is watched for its own sake, as far as Accounting= says:
 *   exact    always.
 *   sampled  while that costs it no more than ACCOUNT_COST_SHARE of its time, by the number of its launches and edges.
 *            Who launches more is away for ACCOUNT_AWAY_NS on average, or longer where the service was late, and then
 *            watched for ACCOUNT_LEAD_NS + ACCOUNT_WINDOW_NS; estimate.h fills in what is between. The pauses are of
 *            random length, so that nobody's rhythm keeps in step with them.
 *   auto     as sampled, but the driver's count takes the place of the windows where there is one (account-driver.h).
 *   off      never.
 *
 * Who does nothing is watched, and has no timer: its next launch is heard of, and until then the service sleeps.
 *
 * What a client tells of itself decides about its own numbers, alone, and nobody loses by it; with others it is
 * contended, and the policy's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"
#include "policy/policy.h"
#include "service/settings/accounting.h"

#define ACCOUNT_LEAD_NS     (2 * NSEC_PER_MSEC) /* what passed uncounted is drained meanwhile */
#define ACCOUNT_WINDOW_NS   (8 * NSEC_PER_MSEC)
#define ACCOUNT_AWAY_NS     (1 * NSEC_PER_SEC)
#define ACCOUNT_DRIVER_NS   (1 * NSEC_PER_SEC)
#define ACCOUNT_AWAY_MAX_NS (60 * NSEC_PER_SEC)
#define ACCOUNT_LOOK_NS     (100 * NSEC_PER_MSEC) /* whether watching costs too much by now */
#define ACCOUNT_LOOK_MAX_NS (10 * NSEC_PER_SEC)
#define ACCOUNT_LAUNCH_NS   NSEC_PER_USEC       /* what a tracked launch costs its process */
#define ACCOUNT_EDGE_NS     (4 * NSEC_PER_USEC) /* and an edge that is heard of */
#define ACCOUNT_COST_SHARE  100U                /* a hundredth */

typedef struct Device Device;
typedef struct Entity Entity;
typedef struct Group Group;

typedef enum AccountPhase {
        ACCOUNT_REST,    /* the state of the device says who is watched */
        ACCOUNT_WATCHED, /* the one that is alone is */
        ACCOUNT_AWAY,    /* it is not, and will be */
} AccountPhase;

/* Of a device. */
typedef struct DeviceAccount {
        AccountPhase phase;
        AccountSource source; /* how the time of the one that is alone is counted */
        Entity *away;
        uint64_t watched_since;
        bool led;         /* the lead is over, what is watched counts */
        uint64_t at;      /* the next look; NSEC_INFINITY: none */
        uint64_t look_ns; /* ACCOUNT_LOOK_NS, and longer while nothing is launched */
        uint64_t since;   /* of the counts */
        uint64_t launches, edges, edges_seen;
        uint64_t random;

        /* What is estimated beyond what the policy has counted, or short of it. */
        int64_t estimated_ns, away_estimated_ns;
        uint64_t told_busy_ns, told_kept_ns, told_idle_ns; /* never back */
} DeviceAccount;

#define DEVICE_ACCOUNT_NULL ((DeviceAccount){.at = NSEC_INFINITY})

/* Whether the one that is alone is watched for its own sake. */
static inline bool account_watches(const DeviceAccount *a) {
        return a->phase == ACCOUNT_WATCHED;
}

/* The state of the device is another one, and its slots are about to be told. */
void account_state_changed(Device *d, uint64_t now);

/* In each turn of the device, when its state is settled. */
void account_turn(Device *d, uint64_t now);

/* The entity leaves the policy. */
void account_forget(Entity *e, uint64_t now);

/* What nobody watched, as it is estimated, put into what the policy has counted. */
void account_device_usage(Device *d, uint64_t now, PolicyDeviceUsage *u);

/* account-driver.h: the entity, if it is still the one that is away, ran so long of the last `span`. */
void account_driver_answered(Device *d, Entity *e, uint64_t span_ns, uint64_t ran_ns);

/* How the number is made; of a group, with what is below it. */
AccountSource account_entity_source(const Entity *e);
AccountSource account_group_source(const Group *g);
