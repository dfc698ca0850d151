/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Changes of devices' policies and parameters over the bus
 *
 * A change of every device also changes devices to come, and devices that have settings of their own: these lose the
 * same keys.
 */

#include "policy-dbus.h"
#include "audit.h"
#include "common/bus-names.h"
#include "manager-dbus.h"
#include "service/core/manager-config.h"
#include "service/core/observer.h"
#include "settings-message.h"

/* --- what is asked for --- */

int policy_from_name(const char *name, const PolicyOps **ret, sd_bus_error *error) {
        const PolicyOps *ops = policy_find(name);

        if (!ops)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchPolicy"), "There is no policy '%s'", name);
        *ret = ops;
        return 0;
}

static int take_unset_key(void *userdata, const char *key) {
        PolicyChange *change = userdata;
        return device_forget_from_string(key, &change->forget);
}

static int take_change(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        PolicyChange *change = userdata;

        if (streq(key, "Unset"))
                return bus_read_unset(message, signature, take_unset_key, change, error);
        return bus_take_device_setting(message, key, signature, &change->set, error);
}

/* Without a state directory nothing can be kept, and the flag has no effect. */
static int read_change(Manager *m, sd_bus_message *message, PolicyChange *ret, sd_bus_error *error) {
        PolicyChange change = POLICY_CHANGE_NULL;
        const char *policy;
        uint64_t flags;

        int r = sd_bus_message_read(message, "st", &policy, &flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(flags, SET_FLAG_PERSISTENT, error);
        if (r < 0)
                return r;
        change.keep = flags & SET_FLAG_PERSISTENT && overrides_is_open(&m->overrides);
        r = bus_read_properties(message, take_change, &change, error);
        if (r < 0)
                return r;
        if (!isempty(policy)) {
                r = policy_from_name(policy, &change.set.ops, error);
                if (r < 0)
                        return r;
        }
        *ret = change;
        return 0;
}

/* --- what comes of it --- */

/* The layers of a device after a change. */
typedef struct ChangedLayers {
        DeviceSettings every_stored, stored, every_runtime, runtime;
} ChangedLayers;

static DeviceSettings or_none(const DeviceSettings *s) {
        return s ? *s : DEVICE_SETTINGS_NULL;
}

static void put(DeviceSettings *s, const PolicyChange *change) {
        device_settings_forget(s, change->forget);
        device_settings_merge(s, &change->set);
}

/* Returns the layers of the device `id` after a change of `whose`: a device, or OVERRIDES_EVERY_DEVICE. */
static ChangedLayers layers_after(Manager *m, const char *whose, const char *id, const PolicyChange *change) {
        const Device *d = device_find(m, id);
        const DeviceLayers now = manager_device_layers(m, id, d ? &d->runtime : NULL);
        const unsigned keys = change->forget | device_settings_keys(&change->set);
        ChangedLayers l = {or_none(now.every_stored), or_none(now.stored), or_none(now.every_runtime),
                        or_none(now.runtime)};

        if (streq(whose, OVERRIDES_EVERY_DEVICE)) {
                put(change->keep ? &l.every_stored : &l.every_runtime, change);
                if (change->keep) {
                        device_settings_forget(&l.stored, keys);
                        device_settings_forget(&l.every_runtime, keys);
                }
                device_settings_forget(&l.runtime, keys);
        } else if (change->keep) {
                DeviceSettings hidden = change->set;

                put(&l.stored, change);
                device_settings_forget(&l.runtime, keys);
                /* Settings for every device until the next boot prevail over stored ones. */
                device_settings_forget(&hidden, ~device_settings_keys(&l.every_runtime));
                device_settings_merge(&l.runtime, &hidden);
        } else
                put(&l.runtime, change);
        return l;
}

/* The effective settings of a device that does not exist yet, or of one without its own settings until the next
 * boot. */
static DeviceEffective effective_to_come(Manager *m, const char *id) {
        const DeviceLayers layers = manager_device_layers(m, id, NULL);
        DeviceEffective e;

        manager_device_effective(m, id, &layers, &e);
        return e;
}

/* The layer that a change of `whose` puts something into; 0: the device's own until the next boot, or none. */
static unsigned changed_layer(const char *whose, const PolicyChange *change) {
        if (device_settings_is_empty(&change->set))
                return 0;
        if (streq(whose, OVERRIDES_EVERY_DEVICE))
                return change->keep ? DEVICE_LAYER_EVERY_STORED : DEVICE_LAYER_EVERY_RUNTIME;
        return change->keep ? DEVICE_LAYER_STORED : 0;
}

/* Returns -EINVAL when a layer would be left out that is changed, or that is in force now. A layer that is left out
 * already, as after a change of the configuration, does not prevent changes of other layers. */
static int effective_after(Manager *m, const char *whose, const char *id, const PolicyChange *change,
                const ChangedLayers *l, DeviceEffective *ret) {
        const DeviceLayers layers = {&l->every_stored, &l->stored, &l->every_runtime, &l->runtime};
        const DeviceEffective before = effective_to_come(m, id);
        DeviceEffective e;

        manager_device_effective(m, id, &layers, &e);
        if (e.left_out & (~before.left_out | changed_layer(whose, change)) || !device_policy_accepts(e.ops, &e.config))
                return -EINVAL;
        *ret = e;
        return 0;
}

static DeviceEffective effective_now(const Device *d) {
        return (DeviceEffective){.ops = d->ops, .config = d->config, .tuning = d->tuning};
}

static int change_error(int r, sd_bus_error *error) {
        switch (r) {
        case -EINVAL:
                return sd_bus_error_set(error, BUS_ERROR("InvalidSetting"),
                                "The policy refuses these parameters: they contradict each other, StarveRunUSec must "
                                "not be more than StarveUSec");
        case -E2BIG:
                return sd_bus_error_setf(error, BUS_ERROR("QuotaExceeded"), "More than %u devices with stored settings",
                                OVERRIDES_DEVICES);
        default:
                return bus_error_from_errno(r, error);
        }
}

static int no_such_device(const char *id, sd_bus_error *error) {
        return sd_bus_error_setf(error, BUS_ERROR("NoSuchDevice"), "There is no device '%s'", id);
}

/* --- the change --- */

static int store(Manager *m, const char *whose, const PolicyChange *change, sd_bus_error *error) {
        int r = overrides_change_device(&m->overrides, whose, &change->set, change->forget);

        if (r >= 0 || r == -E2BIG || r == -ENOMEM)
                return r < 0 ? change_error(r, error) : 0;
        return sd_bus_error_setf(error, SD_BUS_ERROR_IO_ERROR,
                        "The settings could not be stored in %s, nothing was changed: %s", m->overrides.directory,
                        strerror(-r));
}

static void say(Audit *a, const char *id, const char *name, const PolicyChange *change, const DeviceEffective *before,
                const DeviceEffective *after) {
        const AuditObject o = {.fields = {.device = id}, .name = name, .how = change->keep ? " (stored)" : NULL};

        audit_device(a, &o, &change->set, change->forget, before, after);
}

/* Changes one device, which need not exist if settings are stored for it. */
int change_device(
                Manager *m, sd_bus_message *message, const char *id, const PolicyChange *change, sd_bus_error *error) {
        Device *d = device_find(m, id);
        const DeviceEffective before = d ? effective_now(d) : effective_to_come(m, id);
        const ChangedLayers l = layers_after(m, id, id, change);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        DeviceEffective after;

        int r = effective_after(m, id, id, change, &l, &after);
        if (r < 0)
                return change_error(r, error);
        r = change->keep ? store(m, id, change, error) : 0;
        if (r < 0)
                return r;
        r = d ? device_set_runtime(d, &l.runtime) : 0;
        if (r < 0)
                return change_error(r, error);
        audit_begin(m, message, &a);
        say(&a, id, id, change, &before, &after);
        return 0;
}

/* The keys that differ. */
static unsigned differing(const DeviceSettings *a, const DeviceSettings *b) {
        unsigned keys = 0;

        for (unsigned bit = 1; bit <= DEVICE_FORGET_ACCOUNTING; bit <<= 1) {
                DeviceSettings one = *a, other = *b;

                device_settings_forget(&one, ~bit);
                device_settings_forget(&other, ~bit);
                if (!device_settings_equal(&one, &other))
                        keys |= bit;
        }
        return keys;
}

int device_lifetimes(Manager *m, const char *id, DeviceLifetimes *ret, sd_bus_error *error) {
        const Device *d = device_find(m, id);
        const DeviceLayers now = manager_device_layers(m, id, d ? &d->runtime : NULL);
        const DeviceLifetimes l = {.stored = or_none(now.stored), .runtime = or_none(now.runtime)};

        if (!d && device_settings_is_empty(&l.stored))
                return no_such_device(id, error);
        *ret = l;
        return 0;
}

int restore_device(Manager *m, sd_bus_message *message, const char *id, const DeviceLifetimes *expected,
                const DeviceLifetimes *then, sd_bus_error *error) {
        const DeviceLayers every = manager_device_layers(m, id, NULL);
        const ChangedLayers l = {
                        or_none(every.every_stored), then->stored, or_none(every.every_runtime), then->runtime};
        Device *d = device_find(m, id);
        const DeviceEffective before = d ? effective_now(d) : effective_to_come(m, id);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        DeviceEffective after;
        DeviceLifetimes now;

        int r = device_lifetimes(m, id, &now, error);
        if (r < 0)
                return r;
        if (!d && !device_settings_is_empty(&then->runtime))
                return no_such_device(id, error);
        if (differing(&now.stored, &expected->stored) || differing(&now.runtime, &expected->runtime))
                return -ESTALE;
        const PolicyChange change = {.set = then->stored,
                        .forget = differing(&now.stored, &then->stored),
                        .keep = differing(&now.stored, &then->stored) != 0};
        r = effective_after(m, id, id, &change, &l, &after);
        if (r < 0)
                return change_error(r, error);
        r = change.keep ? store(m, id, &change, error) : 0;
        if (r < 0)
                return r;
        r = d ? device_set_runtime(d, &then->runtime) : 0;
        if (r < 0)
                return change_error(r, error);
        const AuditObject o = {.fields = {.device = id}, .name = id, .how = change.keep ? " (stored)" : NULL};
        audit_begin(m, message, &a);
        audit_device(&a, &o, &DEVICE_SETTINGS_NULL, change.forget | differing(&now.runtime, &then->runtime), &before,
                        &after);
        return 0;
}

/* Whether all devices accept it, and those to come. */
static int check_every(Manager *m, const PolicyChange *change, ChangedLayers *ret_to_come, DeviceEffective *ret) {
        DeviceEffective e;
        Device *d, *tmp;

        *ret_to_come = layers_after(m, OVERRIDES_EVERY_DEVICE, "", change);
        int r = effective_after(m, OVERRIDES_EVERY_DEVICE, "", change, ret_to_come, ret);
        HASH_ITER(hh, m->devices, d, tmp) {
                const ChangedLayers l = layers_after(m, OVERRIDES_EVERY_DEVICE, d->id, change);

                if (r >= 0)
                        r = effective_after(m, OVERRIDES_EVERY_DEVICE, d->id, change, &l, &e);
        }
        return r;
}

static int change_each(Manager *m, Audit *a, const PolicyChange *change) {
        const unsigned keys = change->forget | device_settings_keys(&change->set);
        Device *d, *tmp;
        int r = 0;

        HASH_ITER(hh, m->devices, d, tmp) {
                const DeviceEffective before = effective_now(d);
                DeviceSettings runtime = d->runtime;

                device_settings_forget(&runtime, keys);
                int q = device_set_runtime(d, &runtime);
                if (q < 0) {
                        r = q;
                        continue;
                }
                const DeviceEffective after = effective_now(d);
                say(a, d->id, d->id, change, &before, &after);
        }
        return r;
}

/* Changes all devices and those to come, or none. */
static int change_every(Manager *m, sd_bus_message *message, const PolicyChange *change, sd_bus_error *error) {
        const DeviceEffective before = effective_to_come(m, "");
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        DeviceEffective after;
        ChangedLayers l;

        int r = check_every(m, change, &l, &after);
        if (r < 0)
                return change_error(r, error);
        r = change->keep ? store(m, OVERRIDES_EVERY_DEVICE, change, error) : 0;
        if (r < 0)
                return r;
        m->every_device = l.every_runtime;
        audit_begin(m, message, &a);
        say(&a, "*", "every device", change, &before, &after);
        r = change_each(m, &a, change);
        observers_manager_changed(m);
        return r < 0 ? change_error(r, error) : 0;
}

/* --- the calls --- */

int check_change_device(Manager *m, sd_bus_message *message, const char *id, sd_bus_error *error) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "set-policy", .target = id};
        return auth_check(m->auth, message, &request, error);
}

/* *ret_id: "" means every device. A device that does not exist is accepted if settings are stored for it. */
static int read_set_policy(
                Manager *m, sd_bus_message *message, const char **ret_id, PolicyChange *ret, sd_bus_error *error) {
        PolicyChange change;
        const char *id;

        int r = sd_bus_message_read(message, "s", &id);
        if (r < 0)
                return r;
        r = read_change(m, message, &change, error);
        if (r < 0)
                return r;
        bool known = isempty(id) || device_find(m, id) ||
                        (change.keep && device_id_is_valid(id) && overrides_find_device(&m->overrides, id));
        if (!known)
                return no_such_device(id, error);
        *ret_id = id;
        *ret = change;
        return 0;
}

int check_set_policy(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        PolicyChange change = POLICY_CHANGE_NULL;
        const char *id = NULL;

        int r = read_set_policy(m, message, &id, &change, error);
        return r < 0 ? r : check_change_device(m, message, id, error);
}

BUS_MANAGER_CHANGE(method_set_policy) {
        PolicyChange change = POLICY_CHANGE_NULL;
        const char *id = NULL;

        int r = read_set_policy(m, message, &id, &change, error);
        if (r < 0)
                return r;
        r = isempty(id) ? change_every(m, message, &change, error) : change_device(m, message, id, &change, error);
        return r < 0 ? r : bus_answer(m, message, NULL);
}

/* Does to copies of the layers what SetPolicy would do to the layers. */
int method_preview_policy(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const Device *d = userdata;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        PolicyChange change;
        DeviceEffective e;

        int r = read_change(d->manager, message, &change, error);
        if (r < 0)
                return r;
        const ChangedLayers l = layers_after(d->manager, d->id, d->id, &change);
        r = effective_after(d->manager, d->id, d->id, &change, &l, &e);
        if (r < 0)
                return change_error(r, error);
        const DeviceSettings then = {
                        .ops = e.ops,
                        .values = e.config,
                        .mask = (1U << DEVICE_KEYS_N) - 1,
                        .has_preemption = true,
                        .preemption = e.tuning.preemption,
                        .has_accounting = true,
                        .accounting = e.tuning.accounting,
        };
        r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = bus_append_device_settings(reply, &then);
        return r < 0 ? r : sd_bus_message_send(reply);
}
