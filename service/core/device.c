/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Devices
 */

#include <fcntl.h>
#include <stdio.h>
#include <utlist.h>

#include "account-driver.h"
#include "activity.h"
#include "arbiter.h"
#include "device.h"
#include "entity-facts.h"
#include "hooked.h"
#include "ladder.h"
#include "manager-config.h"
#include "observer.h"
#include "resolve.h"
#include "share.h"
#include "tally.h"
#include "tape/feed.h"
#include "turn.h"
#include "usage.h"
#include "user.h"
#include "walk.h"

static const char *const device_state_table[_DEVICE_STATE_MAX] = {
                [DEVICE_ALONE] = "alone",
                [DEVICE_QUIET] = "quiet",
                [DEVICE_SOLE] = "sole",
                [DEVICE_CONTENDED] = "contended",
};
DEFINE_STRING_TABLE_TO_STRING(device_state, DeviceState);

Device *device_find(Manager *m, const char *id) {
        Device *d;

        HASH_FIND_STR(m->devices, id, d);
        return d;
}

Device *device_free(Device *d) {
        if (!d)
                return NULL;

        Manager *m = d->manager;
        if (d->hh.tbl) {
                observers_device_removed(d);
                walks_forget(m, WALK_DEVICES, d);
                HASH_DEL(m->devices, d);
        }
        tallies_free_of_device(d);
        if (d->pending)
                LL_DELETE2(m->pending, d, pending_next);
        if (d->counted)
                user_give(m, d->uid, USER_DEVICES);
        account_driver_free(d->account_driver);
        due_done(&d->due);
        if (d->policy)
                d->ops->free(d->policy);
        free(d->id);
        free(d->name);
        free(d->backend);
        free(d);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Device *, device_free);

static PolicyCallbacks device_callbacks(Device *d) {
        return (PolicyCallbacks){.grant = arbiter_grant, .userdata = d};
}

/* Whether there is a display controller or a processing accelerator at the PCI address that the id names. A client may
 * have made the id up. */
static bool is_gpu(const char *id) {
        const char *address = startswith(id, "pci:");
        char path[64], class[16] = "";

        if (!address || strlen(address) != strlen("0000:00:00.0") ||
                        strspn(address, "0123456789abcdef:.") != strlen(address))
                return false;
        (void) snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", address);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd >= 0 && read(fd, class, sizeof(class) - 1) > 0 &&
                        (startswith(class, "0x03") || startswith(class, "0x12"));
}

static bool is_forgettable(const Device *d) {
        return d->n_queues == 0 && d->n_entities == 0 && !d->gpu && device_settings_is_empty(&d->runtime);
}

typedef struct IdleDevices {
        unsigned n;     /* of all users, */
        unsigned n_own; /* and of this one: */
        uid_t uid;
        Device *oldest; /* of its own */
} IdleDevices;

static IdleDevices idle_devices(const Manager *m, uid_t uid) {
        IdleDevices idle = {.uid = uid};
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp) {
                if (!is_forgettable(d))
                        continue;
                idle.n++;
                if (d->uid != uid)
                        continue;
                idle.n_own++;
                if (!idle.oldest || d->used_at < idle.oldest->used_at)
                        idle.oldest = d;
        }
        return idle;
}

static IdleDevices idle_devices_of_most(const Manager *m) {
        IdleDevices most = {0};
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp) {
                if (!is_forgettable(d) || (most.oldest && d->uid == most.uid))
                        continue;
                IdleDevices idle = idle_devices(m, d->uid);
                if (idle.n_own > most.n_own)
                        most = idle;
                if (idle.n <= DEVICES_IDLE_MAX)
                        break;
        }
        return most;
}

void devices_trim(Manager *m) {
        m->devices_left = false;
        for (;;) {
                IdleDevices idle = idle_devices_of_most(m);
                if (idle.n <= DEVICES_IDLE_MAX)
                        return;
                device_free(idle.oldest);
        }
}

/* Counts the device for its owner, in the place of an idle one when the quota is used up. */
static int device_count(Device *d, unsigned limit) {
        Manager *m = d->manager;

        int r = user_take(m, d->uid, USER_DEVICES, limit);
        if (r == -EDQUOT) {
                IdleDevices idle = idle_devices(m, d->uid);
                if (idle.oldest) {
                        device_free(idle.oldest);
                        r = user_take(m, d->uid, USER_DEVICES, limit);
                }
        }
        d->counted = r >= 0;
        return r;
}

int device_get(Manager *m, const char *id, const char *name, const char *backend, DeviceOwner owner, Device **ret) {
        if (!device_id_is_valid(id))
                return -EINVAL;

        Device *found = device_find(m, id);
        if (found) {
                *ret = found;
                return 0;
        }

        _cleanup_(device_freep)
        Device *d = calloc(1, sizeof(*d));
        if (!d)
                return -ENOMEM;
        *d = (Device){
                        .manager = m,
                        .id = strdup(id),
                        .name = strdup(isempty(name) ? id : name),
                        .backend = strdup(strempty(backend)),
                        .dispatch_at = NSEC_INFINITY,
                        .dispatch_by = NSEC_INFINITY,
                        .cause_at = NSEC_INFINITY,
                        .settle_at = NSEC_INFINITY,
                        .probe_at = NSEC_INFINITY,
                        .stall_at = NSEC_INFINITY,
                        .review_at = NSEC_INFINITY,
                        .rota_at = NSEC_INFINITY,
                        .forecast_at = NSEC_INFINITY,
                        .overlap_at = NSEC_INFINITY,
                        .save_at = NSEC_INFINITY,
                        .yields_below = POLICY_LEVEL_NONE,
                        .nobody_below = POLICY_LEVEL_NONE,
                        .account = DEVICE_ACCOUNT_NULL,
                        .used_at = now_ns(),
                        .uid = owner.uid,
                        .gpu = is_gpu(id),
                        .level = POLICY_LEVEL_NONE,
                        .outside_level = POLICY_LEVEL_NONE,
                        .config = POLICY_CONFIG_DEFAULT,
        };
        if (!d->id || !d->name || !d->backend)
                return -ENOMEM;
        int r = device_count(d, owner.limit);
        if (r < 0)
                return r;
        const DeviceLayers layers = manager_device_layers(m, id, NULL);
        DeviceEffective e;
        manager_device_effective(m, id, &layers, &e);
        d->ops = e.ops;
        d->global = policy_is_global(d->ops);
        d->config = e.config;
        d->tuning = e.tuning;
        activity_follow(m, d->ops);
        PolicyCallbacks callbacks = device_callbacks(d);
        r = d->ops->new (&d->config, &callbacks, &d->policy);
        if (r < 0)
                return r;
        arbiter_device_init(d);

        HASH_ADD_KEYPTR(hh, m->devices, d->id, strlen(d->id), d);
        observers_device_added(d);
        *ret = TAKE_PTR(d);
        return 0;
}

static void device_counted(const Device *d, uint64_t now, PolicyDeviceUsage *ret) {
        PolicyDeviceUsage u;

        d->ops->device_usage(d->policy, now, &u);
        *ret = (PolicyDeviceUsage){
                        .busy_ns = d->gone_usage.busy_ns + u.busy_ns,
                        .kept_ns = d->gone_usage.kept_ns + u.kept_ns,
                        .idle_ns = d->gone_usage.idle_ns + u.idle_ns,
        };
}

void device_usage(Device *d, uint64_t now, PolicyDeviceUsage *ret) {
        device_counted(d, now, ret);
        account_device_usage(d, now, ret);
}

/* Has a recording go on with the new policy instance. */
static void device_tape(Device *d, Policy *p, const PolicyOps *ops, const PolicyConfig *config) {
        if (!d->feed)
                return;
        policy_tap(d->policy, NULL);
        tape_feed_begin(d->feed, p, ops, config, now_ns());
}

/* Has the recording go on with the former policy instance, because making the new one failed. */
static void device_tape_again(Device *d) {
        if (d->feed)
                tape_feed_break(d->feed, d->policy);
}

/* Makes the new policy instance with all entities, before anything of the former one is changed. */
static int policy_new_with_entities(Device *d, const PolicyOps *ops, const PolicyConfig *config, Policy **ret,
                PolicyEntity ***ret_entities) {
        PolicyCallbacks callbacks = device_callbacks(d);
        uint64_t now = now_ns();
        Policy *p;
        size_t n = 0;
        Entity *e;

        int r = ops->new (config, &callbacks, &p);
        if (r < 0)
                return r;

        device_tape(d, p, ops, config);
        PolicyEntity **entities = calloc(d->n_entities + 1, sizeof(void *));
        r = entities ? shares_copy(d, ops, p) : -ENOMEM;
        if (r >= 0)
                DL_FOREACH2(d->entities, e, device_next) {
                        if (!e->policy)
                                continue;
                        const PolicySettings s = entity_settings(e);
                        r = ops->entity_new(p, e->share->next, e, &s, now, &entities[n]);
                        if (r < 0)
                                break;
                        n++;
                }
        if (r < 0) {
                while (n > 0)
                        ops->entity_free(entities[--n], now);
                free(entities);
                shares_drop(d, ops);
                ops->free(p);
                device_tape_again(d);
                return r;
        }
        *ret = p;
        *ret_entities = entities;
        return 0;
}

static int device_switch(Device *d, const PolicyOps *ops, const PolicyConfig *config) {
        _cleanup_free_ PolicyEntity **entities = NULL;
        uint64_t now = now_ns();
        Policy *p;
        size_t n = 0;
        Entity *e;

        int r = policy_new_with_entities(d, ops, config, &p, &entities);
        if (r < 0)
                return r;

        arbiter_tell_others(d, true, now);
        DL_FOREACH2(d->entities, e, device_next) {
                if (!e->policy)
                        continue;
                PolicyUsage u;
                d->ops->entity_usage(e->policy, now, &u);
                usage_add(&e->usage, &u);
                d->ops->entity_free(e->policy, now);
                e->policy = entities[n++];
                if (e->told_ready)
                        ops->entity_ready(e->policy, now);
                /* A new entity begins with run. Words of slots are written only after the new policy has decided, so
                 * that no held queue is let go in between. */
                arbiter_grant(e, &(PolicyGrant){.verdict = VERDICT_RUN}, d);
        }
        shares_switch(d, d->ops);
        device_counted(d, now, &d->gone_usage);
        d->ops->free(d->policy);
        d->ops = ops;
        d->global = policy_is_global(ops);
        d->policy = p;
        d->outside_level = POLICY_LEVEL_NONE;
        d->others_active = false;
        return 0;
}

int device_begin_anew(Device *d) {
        int r = device_switch(d, d->ops, &d->config);
        if (r >= 0)
                device_touch(d);
        return r;
}

/* Moves queues to other entities when the former policy decided for groups and the new one decides for processes, or
 * the other way round. Without memory they stay where they are. */
static void device_regroup(Device *d) {
        _cleanup_free_ Queue **queues = calloc(d->n_queues + 1, sizeof(*queues));
        size_t n = 0;
        Entity *e;
        Queue *q;

        if (!queues)
                return;
        DL_FOREACH2(d->entities, e, device_next)
                DL_FOREACH2(e->queues, q, entity_next)
                        if (n < d->n_queues)
                                queues[n++] = q;
        for (size_t i = 0; i < n; i++)
                (void) queue_settings_changed(queues[i]);
}

static bool config_equal(const PolicyConfig *a, const PolicyConfig *b) {
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (device_key_get(device_keys + i, a) != device_key_get(device_keys + i, b))
                        return false;
        return true;
}

static int device_set_policy(Device *d, const PolicyOps *ops, const PolicyConfig *config) {
        if (ops == d->ops && config_equal(config, &d->config))
                return 0;
        activity_follow(d->manager, ops);
        bool by_process = policy_is_by_process(d->ops);
        int r = ops == d->ops ? d->ops->configure(d->policy, config, now_ns()) : device_switch(d, ops, config);
        if (r < 0)
                return r;
        d->config = *config;
        d->forecast_stale = true;
        if (by_process != policy_is_by_process(d->ops))
                device_regroup(d);
        device_touch(d);
        if (!d->manager->restoring)
                observers_device_changed(d, DEVICE_POLICY);
        return 0;
}

static bool tuning_equal(const DeviceTuning *a, const DeviceTuning *b) {
        return a->threshold_by_level == b->threshold_by_level && a->budget_us == b->budget_us &&
                        a->lead_us == b->lead_us && a->busy_poll_ns == b->busy_poll_ns &&
                        a->cpu_latency_ns == b->cpu_latency_ns && a->preemption == b->preemption &&
                        a->adaptive == b->adaptive && a->allow_mes == b->allow_mes && a->privileged == b->privileged &&
                        a->accounting == b->accounting;
}

static void device_set_tuning(Device *d, const DeviceTuning *tuning) {
        Entity *e;
        bool changed = d->tuning.preemption != tuning->preemption || d->tuning.allow_mes != tuning->allow_mes ||
                        d->tuning.privileged != tuning->privileged || d->tuning.accounting != tuning->accounting;

        if (tuning_equal(&d->tuning, tuning))
                return;
        d->tuning = *tuning;
        DL_FOREACH2(d->entities, e, device_next) {
                Queue *q;
                ladder_resolve(e);
                entity_reconsider(e);
                DL_FOREACH2(e->queues, q, entity_next)
                        queue_review_unheld(q);
        }
        device_sync(d);
        if (changed && !d->manager->restoring)
                observers_device_changed(d, DEVICE_TUNING);
}

int device_load_config(Device *d) {
        const DeviceLayers layers = manager_device_layers(d->manager, d->id, &d->runtime);
        DeviceEffective e;

        manager_device_effective(d->manager, d->id, &layers, &e);
        device_touch(d); /* whether the administrator has named it: levels.h */
        int r = device_set_policy(d, e.ops, &e.config);
        if (r < 0)
                return r;
        device_set_tuning(d, &e.tuning);
        return 0;
}

int device_set_runtime(Device *d, const DeviceSettings *s) {
        const DeviceSettings before = d->runtime;

        d->runtime = *s;
        int r = device_load_config(d);
        if (r < 0) {
                d->runtime = before;
                return r;
        }
        observers_manager_changed(d->manager);
        return 0;
}

int device_configure(Device *d, const DeviceSettings *s) {
        DeviceSettings runtime = d->runtime;

        device_settings_merge(&runtime, s);
        return device_set_runtime(d, &runtime);
}
