/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Devices on the bus
 */

#include "device-dbus.h"
#include "device-metrics.h"
#include "manager-dbus.h"
#include "paths.h"
#include "policy-dbus.h"
#include "settings-message.h"
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

/* --- its settings as properties --- */

static int read_property(sd_bus_message *value, const char *property, PolicyChange *ret, sd_bus_error *error) {
        PolicyChange change = POLICY_CHANGE_NULL;
        const char *name;
        char type;

        int r = sd_bus_message_peek_type(value, &type, NULL);
        if (r < 0)
                return r;
        if (!streq(property, "Policy"))
                r = bus_take_device_setting(value, property, (const char[]){type, '\0'}, &change.set, error);
        else if (type != 's')
                r = sd_bus_error_set(error, BUS_ERROR("InvalidSetting"), "Policy must be of type 's'");
        else {
                r = sd_bus_message_read(value, "s", &name);
                if (r >= 0)
                        r = policy_from_name(name, &change.set.ops, error);
        }
        if (r < 0)
                return r;
        *ret = change;
        return 0;
}

BUS_CHECK(check_property) {
        const Device *d = userdata;
        PolicyChange policy_change;

        int r = read_property(message, member, &policy_change, error);
        return r < 0 ? r : check_change_device(d->manager, message, d->id, error);
}

BUS_SETTER(set_property, Device *d, d->manager) {
        PolicyChange policy_change;

        int r = read_property(value, property, &policy_change, error);
        if (r < 0)
                return r;
        return change_device(d->manager, value, d->id, &policy_change, error);
}

/* --- what it does --- */

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
                {.method = method_preview_policy},
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
                SD_BUS_METHOD_WITH_ARGS("Preview", SD_BUS_ARGS("s", policy, "t", flags, "a{sv}", settings),
                                SD_BUS_RESULT("a{sv}", effective), method_preview_policy, BUS_ANY_USER),
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
