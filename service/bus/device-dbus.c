/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Devices on the bus
 */

#include <inttypes.h>

#include "audit.h"
#include "device-dbus.h"
#include "device-metrics.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/core/manager-config.h"
#include "service/core/observer.h"
#include "statistics-dbus.h"

BUS_GETTER(get_policy) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "s", d->ops->name);
}

BUS_GETTER(get_concurrency) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "u", d->config.concurrency);
}

BUS_GETTER(get_timeslice) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "t", d->config.timeslice_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_threshold) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "u", d->config.threshold);
}

BUS_GETTER(get_preemption) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "s", preemption_to_string(d->tuning.preemption));
}

BUS_GETTER(get_accounting) {
        const Device *d = userdata;
        return sd_bus_message_append(reply, "s", accounting_to_string(d->tuning.accounting));
}

/* Takes a setting whose values have names. */
static int take_name(sd_bus_message *message, SettingsKey key, const char *signature, DeviceSettings *s,
                sd_bus_error *error) {
        const char *name;

        if (!streq(signature, "s"))
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s must be of type 's', not '%s'",
                                settings_key_to_string(key), signature);
        int r = sd_bus_message_read(message, "s", &name);
        if (r < 0)
                return r;
        r = key == SETTINGS_PREEMPTION ? device_settings_set_preemption(s, name)
                                       : device_settings_set_accounting(s, name);
        if (r < 0)
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s must be %s",
                                settings_key_to_string(key), settings_key_range(key));
        return 0;
}

static int take_device_key(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        const DeviceKey *k = device_key_find(key);
        DeviceSettings *s = userdata;
        uint64_t v = 0;
        uint32_t u = 0;

        if (streq(key, "Preemption"))
                return take_name(message, SETTINGS_PREEMPTION, signature, s, error);
        if (streq(key, "Accounting"))
                return take_name(message, SETTINGS_ACCOUNTING, signature, s, error);
        if (!k)
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "Unknown setting '%s'", key);
        if (signature[0] != k->type || signature[1] != '\0')
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s must be of type '%c', not '%s'", key,
                                k->type, signature);

        int r = k->type == 't' ? sd_bus_message_read(message, "t", &v) : sd_bus_message_read(message, "u", &u);
        if (r < 0)
                return r;
        if (device_settings_set(s, k, k->type == 't' ? v : u) < 0) {
                char range[64];
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s must be %s", key,
                                device_key_range(k, range, sizeof(range)));
        }
        return 0;
}

/* The request of one SetPolicy call. */
typedef struct PolicyChange {
        DeviceSettings set;
        unsigned forget;
} PolicyChange;

static int take_unset_key(void *userdata, const char *key) {
        PolicyChange *change = userdata;
        return device_forget_from_string(key, &change->forget);
}

static int take_device_change(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        PolicyChange *change = userdata;

        if (streq(key, "Unset"))
                return bus_read_unset(message, signature, take_unset_key, change, error);
        return take_device_key(message, key, signature, &change->set, error);
}

static int find_policy(const char *name, const PolicyOps **ret, sd_bus_error *error) {
        *ret = policy_find(name);
        if (*ret)
                return 0;
        return sd_bus_error_setf(error, BUS_ERROR("NoSuchPolicy"), "There is no policy '%s'", name);
}

static AuditDevice device_now(const Device *d) {
        return (AuditDevice){.ops = d->ops,
                        .config = d->config,
                        .preemption = d->tuning.preemption,
                        .accounting = d->tuning.accounting};
}

static void audit_changed(const Audit *a, const Device *d, const PolicyChange *change, const AuditDevice *before) {
        const AuditObject o = {.fields = {.device = d->id}, .name = d->id};
        const AuditDevice after = device_now(d);

        audit_device(a, &o, &change->set, change->forget, before, &after);
}

static int change_one(Device *d, sd_bus_message *message, const PolicyChange *change) {
        const AuditDevice before = device_now(d);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;

        int r = device_change(d, &change->set, change->forget);
        if (r < 0)
                return r;
        audit_begin(d->manager, message, &a);
        audit_changed(&a, d, change, &before);
        return 0;
}

static int device_error(int r, sd_bus_error *error) {
        if (r == -EINVAL)
                return sd_bus_error_set(error, BUS_ERROR("InvalidSetting"),
                                "The policy refuses these parameters: they make no sense together");
        return bus_error_from_errno(r, error);
}

static int read_property(sd_bus_message *value, const char *property, DeviceSettings *s, sd_bus_error *error) {
        const char *name;
        char type;

        int r = sd_bus_message_peek_type(value, &type, NULL);
        if (r < 0)
                return r;
        if (streq(property, "Policy")) {
                if (type != 's')
                        return sd_bus_error_set(error, BUS_ERROR("InvalidSetting"), "Policy must be of type 's'");
                r = sd_bus_message_read(value, "s", &name);
                return r < 0 ? r : find_policy(name, &s->ops, error);
        }
        return take_device_key(value, property, (const char[]){type, '\0'}, s, error);
}

static int check_device(Manager *m, sd_bus_message *message, const char *id, sd_bus_error *error) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "set-policy", .target = id};
        return auth_check(m->auth, message, &request, error);
}

BUS_CHECK(check_property) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        const Device *d = userdata;

        int r = read_property(message, member, &s, error);
        return r < 0 ? r : check_device(d->manager, message, d->id, error);
}

BUS_SETTER(set_property, Device *d, d->manager) {
        PolicyChange policy_change = {.set = DEVICE_SETTINGS_NULL};

        int r = read_property(value, property, &policy_change.set, error);
        if (r < 0)
                return r;
        r = change_one(d, value, &policy_change);
        return r < 0 ? device_error(r, error) : 0;
}

/* Whether the policy accepts the parameters as they would be after the change, for a device with the settings
 * `runtime`. */
static bool change_fits(Manager *m, const char *id, const DeviceSettings *runtime, const PolicyChange *change) {
        DeviceSettings left = *runtime;
        PolicyConfig config;
        DeviceTuning tuning;

        const PolicyOps *ops = manager_device_config(m, id, &config, &tuning);
        device_settings_forget(&left, change->forget);
        device_settings_apply(&left, &ops, &config);
        device_settings_apply(&change->set, &ops, &config);
        return device_policy_accepts(ops, &config);
}

/* The audit fields of a device that does not exist yet. */
static AuditDevice device_to_come(Manager *m) {
        AuditDevice d;
        DeviceTuning tuning;

        d.ops = manager_device_config(m, "", &d.config, &tuning);
        d.preemption = tuning.preemption;
        d.accounting = tuning.accounting;
        return d;
}

static int change_each(Manager *m, const Audit *a, const PolicyChange *change) {
        Device *d, *tmp;
        int r = 0;

        HASH_ITER(hh, m->devices, d, tmp) {
                const AuditDevice before = device_now(d);
                int q = device_settings_is_empty(&d->runtime) ? device_load_config(d)
                                                              : device_change(d, &change->set, change->forget);
                if (q < 0)
                        r = q;
                else
                        audit_changed(a, d, change, &before);
        }
        return r;
}

/* Changes all devices and those to come, or none. */
static int change_all(Manager *m, sd_bus_message *message, const PolicyChange *change) {
        const AuditObject every = {.fields = {.device = "*"}, .name = "every device"};
        const DeviceSettings none = DEVICE_SETTINGS_NULL, former = m->every_device;
        const AuditDevice before = device_to_come(m);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        Device *d, *tmp;

        device_settings_forget(&m->every_device, change->forget);
        int r = change_fits(m, "", &none, change) ? 0 : -EINVAL;
        HASH_ITER(hh, m->devices, d, tmp)
                if (!change_fits(m, d->id, &d->runtime, change))
                        r = -EINVAL;
        if (r < 0) {
                m->every_device = former;
                return r;
        }

        device_settings_merge(&m->every_device, &change->set);
        const AuditDevice after = device_to_come(m);
        audit_begin(m, message, &a);
        audit_device(&a, &every, &change->set, change->forget, &before, &after);
        r = change_each(m, &a, change);
        observers_manager_changed(m);
        return r;
}

/* Reads the device (NULL: every one), and the change. */
static int read_set_policy(
                Manager *m, sd_bus_message *message, Device **ret, PolicyChange *ret_change, sd_bus_error *error) {
        PolicyChange change = {.set = DEVICE_SETTINGS_NULL};
        const char *id, *policy;
        Device *d = NULL;
        uint64_t flags;

        int r = sd_bus_message_read(message, "sst", &id, &policy, &flags);
        if (r < 0)
                return r;
        r = bus_check_flags(flags, error);
        if (r < 0)
                return r;
        r = bus_read_properties(message, take_device_change, &change, error);
        if (r < 0)
                return r;
        if (!isempty(policy)) {
                r = find_policy(policy, &change.set.ops, error);
                if (r < 0)
                        return r;
        }
        if (!isempty(id) && !(d = device_find(m, id)))
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchDevice"), "There is no device '%s'", id);
        *ret = d;
        *ret_change = change;
        return 0;
}

int check_set_policy(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        PolicyChange change = {0};
        Device *d = NULL;

        int r = read_set_policy(m, message, &d, &change, error);
        return r < 0 ? r : check_device(m, message, d ? d->id : "", error);
}

BUS_MANAGER_CHANGE(method_set_policy) {
        PolicyChange change = {0};
        Device *d = NULL;

        int r = read_set_policy(m, message, &d, &change, error);
        if (r < 0)
                return r;
        r = d ? change_one(d, message, &change) : change_all(m, message, &change);
        if (r < 0)
                return device_error(r, error);
        return bus_answer(m, message, NULL);
}

BUS_GETTER(get_busy) {
        PolicyDeviceUsage u;
        device_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.busy_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_kept) {
        PolicyDeviceUsage u;
        device_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.kept_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_idle) {
        PolicyDeviceUsage u;
        device_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.idle_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_metrics) {
        return device_append_metrics(userdata, reply);
}

BUS_METHOD(method_measure) {
        int r = bus_read_flags(message, error);
        return r < 0 ? r : device_measure(userdata, message, error);
}

BUS_GETTER(get_ready_to_run_histogram) {
        const Device *d = userdata;
        return bus_append_histogram(reply, &d->ready_to_run);
}

static const GateRule device_rules[] = {
                {.setter = set_property, .check = check_property},
                {.method = method_measure},
                {},
};

static const sd_bus_vtable device_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_PROPERTY("Id", "s", NULL, offsetof(Device, id), BUS_CONST),
                SD_BUS_PROPERTY("Name", "s", NULL, offsetof(Device, name), BUS_CONST),
                SD_BUS_PROPERTY("Backend", "s", NULL, offsetof(Device, backend), BUS_CONST),
                SD_BUS_WRITABLE_PROPERTY("Policy", "s", get_policy, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Concurrency", "u", get_concurrency, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "TimeSliceUSec", "t", get_timeslice, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("Threshold", "u", get_threshold, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Preemption", "s", get_preemption, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Accounting", "s", get_accounting, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_PROPERTY("AllowMESPreemption", "b", bus_get_bool, offsetof(Device, tuning.allow_mes),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("LingerUSec", "t", bus_get_usec, offsetof(Device, config.linger_ns), BUS_CHANGES),
                SD_BUS_PROPERTY("StarveUSec", "t", bus_get_usec, offsetof(Device, config.starve_ns), BUS_CHANGES),
                SD_BUS_PROPERTY("StarveRunUSec", "t", bus_get_usec, offsetof(Device, config.starve_run_ns),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("NEntities", "u", NULL, offsetof(Device, n_entities), 0),
                SD_BUS_PROPERTY("NReady", "u", NULL, offsetof(Device, n_ready), 0),
                SD_BUS_PROPERTY("NPreempted", "t", NULL, offsetof(Device, n_preempted), 0),
                SD_BUS_PROPERTY("BusyUSec", "t", get_busy, 0, 0),
                SD_BUS_PROPERTY("KeptUSec", "t", get_kept, 0, 0),
                SD_BUS_PROPERTY("IdleUSec", "t", get_idle, 0, 0),
                SD_BUS_PROPERTY("ReadyToRunHistogram", "(a(tt)tt)", get_ready_to_run_histogram, 0, 0),
                SD_BUS_PROPERTY("Metrics", "a{sv}", get_metrics, 0, 0),

                SD_BUS_METHOD_WITH_ARGS("Measure", SD_BUS_ARGS("t", flags), SD_BUS_RESULT("a{sv}", metrics),
                                method_measure, BUS_ANY_USER),
                SD_BUS_PROPERTY("HoldCostUSec", "t", bus_get_usec, offsetof(Device, costs.hold_ns), 0),
                SD_BUS_PROPERTY("ReleaseCostUSec", "t", bus_get_usec, offsetof(Device, costs.release_ns), 0),

                SD_BUS_VTABLE_END,
};

int device_from_path(Manager *m, const char *path, Device **ret) {
        _cleanup_free_ char *id = NULL;

        int r = sd_bus_path_decode(path, DEVICE_PREFIX, &id);
        if (r <= 0)
                return r;
        Device *d = device_find(m, id);
        if (!d)
                return 0;
        *ret = d;
        return 1;
}

BUS_FIND(device_object_find) {
        return device_from_path(userdata, path, (Device **) found);
}

const sd_bus_vtable *device_vtable_get(void) {
        return device_vtable;
}

int device_dbus_attach(Manager *m) {
        const GateInterface i = {
                        .path = DEVICE_PREFIX,
                        .name = BUS_INTERFACE ".Device",
                        .vtable = device_vtable,
                        .rules = device_rules,
                        .find = device_object_find,
                        .userdata = m,
        };

        return gate_add(m->gate, &i);
}
