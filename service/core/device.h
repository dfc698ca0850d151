/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Device: one policy instance, and the entities that want the device
 *
 * A device is made by the first queue that names it, and counts in the quota of that queue's user. It stays when its
 * last queue goes, because its name and its learned costs may be needed again. At most DEVICES_IDLE_MAX idle devices
 * stay that have neither settings nor a GPU; beyond that the user with most of them loses the one that was used longest
 * ago.
 */

#include <limits.h>

#include "account.h"
#include "common/page.h"
#include "costs.h"
#include "forecast.h"
#include "manager.h"
#include "policy/policy.h"
#include "service/settings/device-tuning.h"

#define DEVICES_IDLE_MAX 32U

/* How many slots are watched and held; see arbiter.h. */
typedef enum DeviceState {
        DEVICE_ALONE,     /* at most one entity: nothing is written or watched */
        DEVICE_QUIET,     /* several entities, none ready for a while: all may run, all are watched */
        DEVICE_SOLE,      /* several entities, one the only ready one for a while: it is not watched */
        DEVICE_CONTENDED, /* all are watched, the policy's grants are in force */
        _DEVICE_STATE_MAX,
} DeviceState;

const char *device_state_to_string(DeviceState v);

typedef struct DeviceMetrics DeviceMetrics;

struct Device {
        Manager *manager;
        char *id, *name, *backend;
        DeviceState state;

        const PolicyOps *ops;
        Policy *policy;
        PolicyDeviceUsage gone_usage; /* of former policies */
        PolicyDeviceUsage recorded;   /* the part that is in the record: recorder.h */
        PolicyConfig config;
        DeviceTuning tuning;
        DeviceSettings runtime; /* set until the next boot: above what is stored */

        Share *shares;    /* list, by device_prev/device_next */
        Entity *entities; /* list, by device_prev/device_next */
        unsigned n_entities, n_active, n_ready;
        unsigned n_gangs;   /* entities with Gang= */
        int highest_run;    /* gang.h: priority of those that run, where there are gangs; as of the last turn */
        unsigned n_limited; /* active entities that a Max= counts for */
        unsigned n_queues;
        unsigned n_hooked[_HOOKED_MAX]; /* of n_queues, by how launches are seen */
        unsigned n_unheld;              /* Queue.unheld */
        unsigned n_stalled;             /* queues with Queue.stalled */
        Entity *last_ready;

        Entity *changed;  /* list, by changed_next: grants not yet written */
        Entity *reviewed; /* list, by reviewed_prev/reviewed_next: those that device_review() looks at */
        bool pending;     /* on Manager.pending */
        Device *pending_next;
        bool decided; /* on Manager.decided */
        Device *decided_next;

        Due due;              /* the earliest of the times below */
        uint64_t decided_at;  /* time of the policy's last decision */
        uint64_t dispatch_at; /* when the policy asked to be dispatched again */
        uint64_t dispatch_by; /* by then at the latest */
        uint64_t cause_at;    /* of the earliest event since the last decision; NSEC_INFINITY: none */
        uint64_t settle_at;   /* when the state may become QUIET or SOLE */
        uint64_t probe_at;    /* when the sole entity is looked at again, while others are held for it */

        Entity *rotas;    /* list, by rota.prev/rota.next */
        uint64_t rota_at; /* next rota_turn() */

        Entity *forecasts;    /* list, by forecast.before/forecast.after */
        uint64_t forecast_at; /* next forecast_turn() */
        bool forecast_opens;  /* a window begins then */
        bool forecast_stale;  /* what windows depend on has changed: entities of that list, state, policy or tails */
        uint64_t forecast_hold_ns; /* windows are made for these Costs.hold_ns */
        int yields_below;          /* entities of lower priorities yield (forecast.h), */
        uint64_t expected_at;      /* because one is expected, not earlier than then */
        int nobody_below;          /* no entity has a priority below this one; POLICY_LEVEL_NONE: not known */
        uint64_t drain_ns;         /* how long tails take: forecast_drained() */

        Entity *overlaps;             /* list, by overlaps_prev/overlaps_next, the first begun first: overlaps.h */
        const Entity *overlap_runner; /* who runs beside the first of them; NULL: nobody */
        uint64_t overlap_at;          /* when to divide the time again; NSEC_INFINITY: not */

        uint64_t review_at; /* earliest Entity.review_at */
        Costs costs;        /* result of `votes` */
        CostVotes votes;

        uint64_t handover_ns; /* sum over its entities */
        DeviceAccount account;
        uint64_t saved_at; /* group-totals.h */
        uint64_t save_at;  /* when that is due again; NSEC_INFINITY: nothing is unsaved */

        int level, outside_level; /* levels.h: its own level, as told to the others, and theirs */
        bool level_active, level_counts, others_active, level_told;
        bool global; /* policy_is_global() */

        uint64_t stall_at; /* when stopped processes are looked for again */
        Entity *nice_next; /* nice.h: whose CPU priority is read next; NULL: the first */
        bool sync;         /* compare all slots with the words that they should hold */

        Entity *preempted, *preempted_by; /* of this turn's verdicts */
        Device *preempted_next;
        uint64_t n_preempted;
        Histogram ready_to_run;       /* decision.h */
        uint64_t preempted_signal_at; /* of the last Preempted signal */
        uint64_t used_at;
        uid_t uid;    /* user of the first queue that named it */
        bool counted; /* in that user's quota */
        bool gpu;     /* sysfs has a GPU for it */

        struct TapeFeed *feed; /* takes the policy's calls while they are recorded; NULL: not recorded */
        struct Taped *taped;   /* taping.h */

        Openings openings; /* forecast.h */

        Tally *tallies;                       /* list, by device_prev/device_next; tally.h */
        struct AccountDriver *account_driver; /* account-driver.h; NULL until it is asked */
        DeviceMetrics *metrics;               /* device-metrics.h; NULL until Measure is called */

        UT_hash_handle hh;
};

/* The user who names a device, and the limit of devices that the user may name. */
typedef struct DeviceOwner {
        uid_t uid;
        unsigned limit;
} DeviceOwner;

#define DEVICE_OWNER_NONE ((DeviceOwner){UID_NONE, UINT_MAX})

/* Whether the policy's grants are in force; otherwise all entities may run. */
static inline bool device_grants_in_force(const Device *d) {
        return d->state == DEVICE_SOLE || d->state == DEVICE_CONTENDED;
}

/* Finds or makes the device. -EINVAL: invalid id; -EDQUOT: the owner has `limit` devices already. */
int device_get(Manager *m, const char *id, const char *name, const char *backend, DeviceOwner owner, Device **ret);
Device *device_find(Manager *m, const char *id);
Device *device_free(Device *d);

/* Frees idle devices beyond DEVICES_IDLE_MAX. Called at the end of a turn only, when no function holds a pointer to
 * one. */
void devices_trim(Manager *m);

/* Called after the configuration changed, or settings below `runtime`: applies them, except for keys that `runtime`
 * sets. */
int device_load_config(Device *d);

/* Replaces the policy by a new instance of the same policy. Settings and readiness stay; debts are forgotten. */
int device_begin_anew(Device *d);

/* Replaces the settings that hold until the next boot. Entities keep their state and settings; on failure (-EINVAL: the
 * policy refuses the parameters) nothing is changed. */
int device_set_runtime(Device *d, const DeviceSettings *s);

/* Merges *s into the settings that hold until the next boot. */
int device_configure(Device *d, const DeviceSettings *s);

/* Busy, kept and idle time since the device was made. */
void device_usage(Device *d, uint64_t now, PolicyDeviceUsage *ret);
