/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Devices: one policy instance each, and the entities that want the device
 *
 * A device is made by the first queue that names it, and counts as that queue's user's. It stays when its last queue
 * goes (its name and what was learnt of it may be wanted again). Of those that stay, and that have neither settings nor
 * a GPU behind them, there are at most DEVICES_IDLE_MAX: then the user with most of them loses the one that was used
 * longest ago.
 */

#include <limits.h>

#include "account.h"
#include "common/page.h"
#include "costs.h"
#include "manager.h"
#include "policy/policy.h"
#include "service/settings/device-tuning.h"

#define DEVICE_ID_MAX    128U
#define DEVICES_IDLE_MAX 32U

/* How much the service has to hear and to say; see arbiter.h. */
typedef enum DeviceState {
        DEVICE_ALONE,     /* at most one entity: nothing is written or watched */
        DEVICE_QUIET,     /* several, and none was ready for a while: all may run, all are watched */
        DEVICE_SOLE,      /* several, and one has been the only ready one for a while: it is not watched */
        DEVICE_CONTENDED, /* all are watched, the policy's grants are in force */
        _DEVICE_STATE_MAX,
} DeviceState;

const char *device_state_to_string(DeviceState v);
int device_state_from_string(const char *s);

typedef struct DeviceMetrics DeviceMetrics;

struct Device {
        Manager *manager;
        char *id, *name, *backend, *path;
        DeviceState state;

        const PolicyOps *ops;
        Policy *policy;
        PolicyDeviceUsage gone_usage; /* of policies that it had before */
        PolicyDeviceUsage recorded;   /* what of it is in the record: recorder.h */
        PolicyConfig config;
        DeviceTuning tuning;
        DeviceSettings runtime; /* stand above the configuration */

        Share *shares;    /* list, by device_prev/device_next */
        Entity *entities; /* list, by device_prev/device_next */
        unsigned n_entities, n_active, n_ready;
        unsigned n_limited; /* active ones that a Max= counts for */
        unsigned n_queues;
        unsigned n_hooked[_HOOKED_MAX]; /* of these */
        unsigned n_unheld;              /* Queue.unheld */
        unsigned n_stalled;             /* queues that count as idle because their process is stopped */
        Entity *last_ready;

        Entity *changed; /* list, by changed_next: grants not yet written */
        bool pending;    /* on the manager's list of devices to be dispatched */
        Device *pending_next;

        sd_event_source *timer;
        uint64_t timer_at;    /* NSEC_INFINITY: off */
        uint64_t dispatch_at; /* when the policy wants to be asked again */
        uint64_t cause_at; /* what the next decision follows from: the earliest of what has happened since the last; NSEC_INFINITY: nothing */
        uint64_t settle_at; /* when the state may become quiet or sole */
        uint64_t probe_at;  /* when the sole entity is looked at again, while others are held for it */

        uint64_t review_at; /* when the choice of a hold's level is to be made anew: at the earliest of all entities */
        Costs costs; /* what the votes come to */
        CostVotes votes;

        uint64_t handover_ns; /* of its entities */
        DeviceAccount account;
        uint64_t saved_at; /* group-totals.h */

        int level, outside_level; /* levels.h: its own as the others were told it, and theirs */
        bool level_active, others_active, level_told;

        uint64_t stall_at; /* when stopped processes are looked for again */
        bool sync;         /* all slots are to be compared with what should stand there */

        Entity *preempted, *preempted_by; /* in the turn that is being written */
        Device *preempted_next;
        uint64_t n_preempted;
        Histogram ready_to_run;       /* decision.h */
        uint64_t preempted_signal_at; /* of the last Preempted signal */
        uint64_t used_at;
        uid_t uid;    /* of the user who named it first */
        bool counted; /* in that user's quota */
        bool gpu;     /* there is one behind it, by what sysfs says */

        Tally *tallies;                       /* list, by device_prev/device_next; tally.h */
        struct AccountDriver *account_driver; /* account-driver.h; NULL until it is asked */
        DeviceMetrics *metrics;               /* device-metrics.h; NULL until somebody asks */

        UT_hash_handle hh;
};

bool device_id_is_valid(const char *id);

/* Who names a device, and how many he may have. */
typedef struct DeviceOwner {
        uid_t uid;
        unsigned limit;
} DeviceOwner;

#define DEVICE_OWNER_NONE ((DeviceOwner){(uid_t) -1, UINT_MAX})

/* Whether the policy decides there, and not everybody may run. */
static inline bool device_grants_in_force(const Device *d) {
        return d->state == DEVICE_SOLE || d->state == DEVICE_CONTENDED;
}

/* Finds or makes. -EINVAL for an id that cannot be one, -EDQUOT when the owner has too many already. */
int device_get(Manager *m, const char *id, const char *name, const char *backend, DeviceOwner owner,
                Device **ret);
Device *device_find(Manager *m, const char *id);
Device *device_free(Device *d);

/* Those that are idle and too many go. Not while somebody holds a pointer to one: a turn's last act. */
void devices_trim(Manager *m);

/* The configuration changed: what was not set at run time follows it. */
int device_load_config(Device *d);

/* Whether these parameters make sense to the policy, together. */
bool device_policy_accepts(const PolicyOps *ops, const PolicyConfig *config);

/* Forgets run-time settings (see device_settings_forget()), and puts *s on top of what is left. Nobody's state or
 * settings are lost; on failure (-EINVAL: the policy refuses the parameters) nothing is changed. */
int device_change(Device *d, const DeviceSettings *s, unsigned forget);

/* The same, forgetting nothing. */
int device_configure(Device *d, const DeviceSettings *s);

/* What became of its time, since it was made. */
void device_usage(Device *d, uint64_t now, PolicyDeviceUsage *ret);
