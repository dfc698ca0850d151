/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings in messages of the bus
 */

#include "settings-message.h"
#include "service/core/manager.h"

static int invalid_setting(const char *key, sd_bus_error *error) {
        int k = settings_key_from_string(key);

        if (k < 0)
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "Unknown setting '%s'", key);
        return sd_bus_error_setf(
                        error, BUS_ERROR("InvalidSetting"), "%s must be %s", key, settings_key_range((SettingsKey) k));
}

static int read_number(sd_bus_message *message, char type, int64_t *ret) {
        uint64_t t = 0;
        uint32_t u = 0;
        int32_t i = 0;
        int b = 0, r;

        switch (type) {
        case 'b':
                r = sd_bus_message_read_basic(message, type, &b);
                *ret = b;
                return r;
        case 'i':
                r = sd_bus_message_read_basic(message, type, &i);
                *ret = i;
                return r;
        case 'u':
                r = sd_bus_message_read_basic(message, type, &u);
                *ret = u;
                return r;
        default:
                r = sd_bus_message_read_basic(message, type, &t);
                *ret = (int64_t) MIN(t, (uint64_t) INT64_MAX);
                return r;
        }
}

int bus_take_setting(
                sd_bus_message *message, const char *key, const char *signature, Settings *s, sd_bus_error *error) {
        int k = settings_key_from_string(key);
        const char *name;
        int64_t v;
        int r;

        if (k < 0)
                return invalid_setting(key, error);
        const char *type = settings_key_signature((SettingsKey) k);
        if (!streq(signature, type))
                return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s must be of type '%s', not '%s'", key,
                                type, signature);
        if (*type == 's') {
                r = sd_bus_message_read_basic(message, 's', &name);
                if (r < 0)
                        return r;
                r = settings_set_name(s, (SettingsKey) k, name);
        } else {
                r = read_number(message, *type, &v);
                if (r < 0)
                        return r;
                r = settings_set_number(s, (SettingsKey) k, v);
        }
        return r < 0 ? invalid_setting(key, error) : 0;
}

int bus_append_setting(sd_bus_message *m, const Settings *s, SettingsKey k) {
        const char *type = settings_key_signature(k);
        int64_t v = settings_get_number(s, k);

        switch (*type) {
        case 's':
                return sd_bus_message_append(m, type, settings_get_name(s, k));
        case 't':
                return sd_bus_message_append(m, type, (uint64_t) v);
        case 'u':
                return sd_bus_message_append(m, type, (uint32_t) v);
        default:
                return sd_bus_message_append(m, type, (int) v);
        }
}

int bus_append_setting_variant(sd_bus_message *m, const Settings *s, SettingsKey k) {
        int r = sd_bus_message_open_container(m, 'v', settings_key_signature(k));

        if (r >= 0)
                r = bus_append_setting(m, s, k);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_entry(sd_bus_message *m, const Settings *s, SettingsKey k) {
        int r = sd_bus_message_open_container(m, 'e', "sv");

        if (r >= 0)
                r = sd_bus_message_append(m, "s", settings_key_to_string(k));
        if (r >= 0)
                r = bus_append_setting_variant(m, s, k);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

int bus_append_settings(sd_bus_message *m, const Settings *s) {
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        for (SettingsKey k = 0; r >= 0 && k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(s, k))
                        r = append_entry(m, s, k);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

int bus_append_resolved(sd_bus_message *m, const SettingsResolved *r, const char *property) {
        int k = settings_key_from_string(property);
        Settings now;

        settings_from_resolved(r, &now);
        return k < 0 ? -EINVAL : bus_append_setting(m, &now, (SettingsKey) k);
}

/* --- of devices --- */

/* Takes a setting whose values have names. */
static int take_device_name(sd_bus_message *message, SettingsKey key, const char *signature, DeviceSettings *s,
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

int bus_take_device_setting(sd_bus_message *message, const char *key, const char *signature, DeviceSettings *s,
                sd_bus_error *error) {
        const DeviceKey *k = device_key_find(key);
        uint64_t v = 0;
        uint32_t u = 0;

        if (streq(key, "Preemption"))
                return take_device_name(message, SETTINGS_PREEMPTION, signature, s, error);
        if (streq(key, "Accounting"))
                return take_device_name(message, SETTINGS_ACCOUNTING, signature, s, error);
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

int bus_append_device_settings(sd_bus_message *m, const DeviceSettings *s) {
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        if (r >= 0 && s->ops)
                r = sd_bus_message_append(m, "{sv}", "Policy", "s", s->ops->name);
        for (size_t i = 0; r >= 0 && i < DEVICE_KEYS_N; i++) {
                const DeviceKey *k = device_keys + i;
                uint64_t v = device_key_get(k, &s->values);

                if (!device_settings_has(s, k))
                        continue;
                r = k->type == 't' ? sd_bus_message_append(m, "{sv}", k->name, "t", v)
                                   : sd_bus_message_append(m, "{sv}", k->name, "u", (uint32_t) v);
        }
        if (r >= 0 && s->has_preemption)
                r = sd_bus_message_append(m, "{sv}", "Preemption", "s", preemption_to_string(s->preemption));
        if (r >= 0 && s->has_accounting)
                r = sd_bus_message_append(m, "{sv}", "Accounting", "s", accounting_to_string(s->accounting));
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* --- by their lifetimes --- */

static int open_lifetime(sd_bus_message *m, const char *target, const char *lifetime) {
        int r = sd_bus_message_open_container(m, 'r', target ? "ssa{sv}" : "sa{sv}");

        if (r >= 0 && target)
                r = sd_bus_message_append(m, "s", target);
        return r < 0 ? r : sd_bus_message_append(m, "s", lifetime);
}

int bus_append_lifetime(sd_bus_message *m, const char *target, const char *lifetime, const Settings *s) {
        if (settings_is_empty(s))
                return 0;
        int r = open_lifetime(m, target, lifetime);
        if (r >= 0)
                r = bus_append_settings(m, s);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

int bus_append_device_lifetime(sd_bus_message *m, const char *target, const char *lifetime, const DeviceSettings *s) {
        if (device_settings_is_empty(s))
                return 0;
        int r = open_lifetime(m, target, lifetime);
        if (r >= 0)
                r = bus_append_device_settings(m, s);
        return r < 0 ? r : sd_bus_message_close_container(m);
}
