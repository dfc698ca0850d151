/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Devices on the bus
 */

#include <inttypes.h>

#include "arbiter.h"
#include "log.h"
#include "manager-dbus.h"
#include "messages.h"

#define DEVICE_PREFIX BUS_PATH "/device"

#define PREEMPTED_INTERVAL_NS (100 * NSEC_PER_MSEC)

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

typedef struct DeviceKey {
        const char *name;
        char type;
        uint64_t min, max; /* in the unit of the bus: microseconds for times */
        size_t offset;     /* in PolicyConfig */
} DeviceKey;

#define USEC_PER_HOUR UINT64_C(3600000000)

static const DeviceKey device_keys[] = {
                {"Concurrency", 'u', 1, 65535, offsetof(PolicyConfig, concurrency)},
                {"TimeSliceUSec", 't', 100, USEC_PER_HOUR, offsetof(PolicyConfig, timeslice_ns)},
                {"StarveUSec", 't', 1000, USEC_PER_HOUR, offsetof(PolicyConfig, starve_ns)},
                {"StarveRunUSec", 't', 100, USEC_PER_HOUR, offsetof(PolicyConfig, starve_run_ns)},
                {"LingerUSec", 't', 0, 1000000, offsetof(PolicyConfig, linger_ns)},
                {"Threshold", 'u', 0, SETTINGS_THRESHOLD_MAX, offsetof(PolicyConfig, threshold)},
};

static void copy_value(PolicyConfig *to, const PolicyConfig *from, const DeviceKey *k) {
        size_t size = k->type == 't' ? sizeof(uint64_t) : sizeof(uint32_t);
        memcpy((char *) to + k->offset, (const char *) from + k->offset, size);
}

static int take_device_key(sd_bus_message *message, const char *key, const char *signature, void *userdata,
                sd_bus_error *error) {
        DeviceSettings *s = userdata;
        const DeviceKey *k = NULL;

        for (size_t i = 0; i < ELEMENTSOF(device_keys); i++)
                if (streq(device_keys[i].name, key))
                        k = device_keys + i;
        if (!k)
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "Unknown setting '%.64s'", key);
        if (signature[0] != k->type || signature[1] != '\0')
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"),
                                "%s must be of type '%c', not '%s'", key, k->type, signature);

        uint64_t v;
        uint32_t u;
        int r = k->type == 't' ? sd_bus_message_read(message, "t", &v)
                               : sd_bus_message_read(message, "u", &u);
        if (r < 0)
                return r;
        if (k->type == 'u')
                v = u;
        if (v < k->min || v > k->max)
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"),
                                "%s must be %" PRIu64 "..%" PRIu64, key, k->min, k->max);

        char *at = (char *) &s->values + k->offset;
        if (k->type == 't') {
                v *= NSEC_PER_USEC;
                memcpy(at, &v, sizeof(v));
        } else
                memcpy(at, &u, sizeof(u));
        s->mask |= 1U << (k - device_keys);
        return 0;
}

static int find_policy(const char *name, const PolicyOps **ret, sd_bus_error *error) {
        *ret = policy_find(name);
        if (*ret)
                return 0;
        return sd_bus_error_setf(error, BUS_ERROR("NoSuchPolicy"), "There is no policy '%.64s'", name);
}

const PolicyOps *device_settings_apply(const DeviceSettings *s, const PolicyOps *ops, PolicyConfig *config) {
        for (size_t i = 0; i < ELEMENTSOF(device_keys); i++)
                if (s->mask & (1U << i))
                        copy_value(config, &s->values, device_keys + i);
        return s->ops ?: ops;
}

static int device_apply(Device *d, const DeviceSettings *s) {
        PolicyConfig config = d->config;
        const PolicyOps *ops = device_settings_apply(s, d->ops, &config);

        int r = device_set_policy(d, ops, &config);
        if (r < 0)
                return r;
        d->configured = true;
        log_event(LOG_NOTICE, MESSAGE_POLICY_CHANGED, LOG_FIELDS(.device = d->id), "Device %s: policy %s",
                        d->id, d->ops->name);
        if (d->manager->bus)
                (void) sd_bus_emit_properties_changed(d->manager->bus, d->path, BUS_INTERFACE ".Device",
                                "Policy", "Concurrency", "TimeSliceUSec", "Threshold", "LingerUSec",
                                "StarveUSec", "StarveRunUSec", NULL);
        return 0;
}

static int device_error(int r, sd_bus_error *error) {
        if (r == -EINVAL)
                return sd_bus_error_set(error, BUS_ERROR("InvalidSetting"),
                                "The policy refuses these parameters: they make no sense together");
        return bus_error_from_errno(r, error);
}

static int read_property(
                sd_bus_message *value, const char *property, DeviceSettings *s, sd_bus_error *error) {
        const char *name;
        char type;

        int r = sd_bus_message_peek_type(value, &type, NULL);
        if (r < 0)
                return r;
        if (streq(property, "Policy")) {
                if (type != 's')
                        return sd_bus_error_set(
                                        error, BUS_ERROR("InvalidSetting"), "Policy must be of type 's'");
                r = sd_bus_message_read(value, "s", &name);
                return r < 0 ? r : find_policy(name, &s->ops, error);
        }
        return take_device_key(value, property, (const char[]){type, '\0'}, s, error);
}

int device_check_property(sd_bus_message *value, const char *property, sd_bus_error *error) {
        DeviceSettings s = {0};
        return read_property(value, property, &s, error);
}

/* Authorised by property_filter(). */
BUS_SETTER(set_property) {
        DeviceSettings s = {0};
        Device *d = userdata;

        int r = read_property(value, property, &s, error);
        if (r < 0)
                return r;
        r = device_apply(d, &s);
        if (r < 0)
                return device_error(r, error);
        arbiter_flush(d->manager);
        return 0;
}

static int apply_to_every_device(Manager *m, const DeviceSettings *s) {
        DeviceSettings every = m->every_device;
        PolicyConfig config;
        uint32_t budget_us;
        Device *d, *tmp;

        every.ops = device_settings_apply(s, every.ops, &every.values);
        every.mask |= s->mask;
        const PolicyOps *ops = manager_device_config(m, "", &config, &budget_us);
        ops = device_settings_apply(&every, ops, &config);
        if (!device_policy_accepts(ops, &config))
                return -EINVAL;

        HASH_ITER(hh, m->devices, d, tmp) {
                int r = device_apply(d, s);
                if (r < 0)
                        return r;
        }
        m->every_device = every;
        return 0;
}

int method_set_policy(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Manager *m = userdata;
        DeviceSettings s = {0};
        const char *id, *policy;
        Device *d = NULL;
        uint64_t flags;

        int r = sd_bus_message_read(message, "sst", &id, &policy, &flags);
        if (r < 0)
                return r;
        r = bus_check_flags(flags, error);
        if (r < 0)
                return r;
        r = bus_read_properties(message, take_device_key, &s, error);
        if (r < 0)
                return r;
        if (!isempty(policy)) {
                r = find_policy(policy, &s.ops, error);
                if (r < 0)
                        return r;
        }
        if (!isempty(id) && !(d = device_find(m, id)))
                return sd_bus_error_setf(
                                error, BUS_ERROR("NoSuchDevice"), "There is no device '%.128s'", id);

        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "set-policy", .target = id};
        r = auth_check(m->auth, message, &request, error);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = d ? device_apply(d, &s) : apply_to_every_device(m, &s);
        arbiter_flush(m);
        return r < 0 ? device_error(r, error) : sd_bus_reply_method_return(message, NULL);
}

void device_emit_preempted(Device *d, const Entity *e, const Entity *by) {
        char name[128], by_name[128] = "";
        uint64_t now = now_ns();

        if (!d->manager->bus || ns_sub(now, d->preempted_signal_at) < PREEMPTED_INTERVAL_NS)
                return;
        d->preempted_signal_at = now;
        if (by)
                (void) entity_name(by, by_name, sizeof(by_name));
        (void) sd_bus_emit_signal(d->manager->bus, BUS_PATH, BUS_INTERFACE, "Preempted", "oss", d->path,
                        entity_name(e, name, sizeof(name)), by_name);
}

static const sd_bus_vtable device_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_PROPERTY("Id", "s", NULL, offsetof(Device, id), BUS_CONST),
                SD_BUS_PROPERTY("Name", "s", NULL, offsetof(Device, name), BUS_CONST),
                SD_BUS_PROPERTY("Backend", "s", NULL, offsetof(Device, backend), BUS_CONST),
                SD_BUS_WRITABLE_PROPERTY(
                                "Policy", "s", get_policy, set_property, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("Concurrency", "u", get_concurrency, set_property, 0,
                                BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("TimeSliceUSec", "t", get_timeslice, set_property, 0,
                                BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("Threshold", "u", get_threshold, set_property, 0,
                                BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_PROPERTY("LingerUSec", "t", bus_get_usec, offsetof(Device, config.linger_ns),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("StarveUSec", "t", bus_get_usec, offsetof(Device, config.starve_ns),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("StarveRunUSec", "t", bus_get_usec, offsetof(Device, config.starve_run_ns),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("NEntities", "u", NULL, offsetof(Device, n_entities), 0),
                SD_BUS_PROPERTY("NReady", "u", NULL, offsetof(Device, n_ready), 0),
                SD_BUS_PROPERTY("NPreempted", "t", NULL, offsetof(Device, n_preempted), 0),

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

BUS_ENUMERATOR(device_enumerate) {
        Manager *m = userdata;
        Device *d, *tmp;
        BusPaths paths = {0};

        HASH_ITER(hh, m->devices, d, tmp)
                bus_paths_add(&paths, d->path);
        return bus_paths_take(&paths, nodes);
}

int device_dbus_attach(Manager *m, sd_bus *bus) {
        return bus_add_objects(bus, m, DEVICE_PREFIX, BUS_INTERFACE ".Device", device_vtable,
                        device_object_find, device_enumerate);
}
