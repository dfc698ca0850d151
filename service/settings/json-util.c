/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON
 */

#include "json-util.h"

int json_add_string(json_object *o, const char *key, const char *s) {
        return json_add(o, key, json_object_new_string(strempty(s)));
}

int json_add_u64(json_object *o, const char *key, uint64_t v) {
        return json_add(o, key, json_object_new_uint64(v));
}

int json_add_int(json_object *o, const char *key, int v) {
        return json_add(o, key, json_object_new_int(v));
}

int json_add_bool(json_object *o, const char *key, bool v) {
        return json_add(o, key, json_object_new_boolean(v));
}

int json_append_object(json_object *array, json_object **ret) {
        json_object *o = json_object_new_object();
        int r = json_add(array, NULL, o);

        if (r >= 0)
                *ret = o;
        return r;
}

static int add_setting(json_object *o, const Settings *s, SettingsKey k) {
        const char *key = settings_key_to_string(k);
        int64_t v = settings_get_number(s, k);

        switch (*settings_key_signature(k)) {
        case 's':
                return json_add_string(o, key, settings_get_name(s, k));
        case 'b':
                return json_add_bool(o, key, v);
        default:
                return json_add(o, key, json_object_new_int64(v));
        }
}

static int fill_settings(json_object *o, const Settings *s) {
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(s, k))
                        JSON_TRY(add_setting(o, s, k));
        return 0;
}

int json_add_settings(json_object *o, const char *key, const Settings *s) {
        json_object *settings = json_object_new_object();

        JSON_TRY(json_add(o, key, settings));
        return fill_settings(settings, s);
}

int json_fill_device_settings(json_object *o, const DeviceSettings *s) {
        if (s->ops)
                JSON_TRY(json_add_string(o, "Policy", s->ops->name));
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (device_settings_has(s, device_keys + i))
                        JSON_TRY(json_add_u64(o, device_keys[i].name, device_key_get(device_keys + i, &s->values)));
        if (s->has_preemption)
                JSON_TRY(json_add_string(o, "Preemption", preemption_to_string(s->preemption)));
        if (s->has_accounting)
                JSON_TRY(json_add_string(o, "Accounting", accounting_to_string(s->accounting)));
        return 0;
}

static int take_device_name(const char *key, const char *name, DeviceSettings *s) {
        if (streq(key, "Preemption"))
                return device_settings_set_preemption(s, name);
        if (streq(key, "Accounting"))
                return device_settings_set_accounting(s, name);
        const PolicyOps *ops = policy_find(name);
        if (!ops)
                return -EINVAL;
        s->ops = ops;
        return 0;
}

int json_take_device_setting(const char *key, json_object *v, DeviceSettings *s) {
        const DeviceKey *k = device_key_find(key);

        if (!k && !streq(key, "Policy") && !streq(key, "Preemption") && !streq(key, "Accounting"))
                return -ENOENT;
        if (!json_object_is_type(v, k ? json_type_int : json_type_string))
                return -EINVAL;
        if (!k)
                return take_device_name(key, json_object_get_string(v), s);
        int64_t n = json_object_get_int64(v);
        return n < 0 ? -ERANGE : device_settings_set(s, k, (uint64_t) n);
}

const char *json_get_string(json_object *o, const char *key) {
        json_object *v;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
                return "";
        return json_object_get_string(v);
}

uint64_t json_get_u64(json_object *o, const char *key) {
        json_object *v;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_int))
                return 0;
        return json_object_get_uint64(v);
}

int json_get_int(json_object *o, const char *key) {
        json_object *v;

        if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_int))
                return 0;
        return json_object_get_int(v);
}

bool json_get_bool(json_object *o, const char *key) {
        json_object *v;

        return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

static int get_setting(json_object *v, SettingsKey k, Settings *s) {
        switch (*settings_key_signature(k)) {
        case 's':
                return settings_set_name(s, k, strempty(json_object_get_string(v)));
        case 'b':
                return settings_set_number(s, k, json_object_get_boolean(v));
        default:
                return settings_set_number(s, k, json_object_get_int64(v));
        }
}

void json_get_settings(json_object *o, const char *key, Settings *ret) {
        Settings s = SETTINGS_NULL;
        json_object *all, *v;

        if (json_object_object_get_ex(o, key, &all))
                for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                        if (json_object_object_get_ex(all, settings_key_to_string(k), &v))
                                (void) get_setting(v, k, &s);
        *ret = s;
}
