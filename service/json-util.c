/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON
 */

#include "json-util.h"

int json_add(json_object *o, const char *key, json_object *value) {
        if (!value)
                return -ENOMEM;
        if (json_object_object_add(o, key, value) < 0) {
                json_object_put(value);
                return -ENOMEM;
        }
        return 0;
}

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

        if (!o)
                return -ENOMEM;
        if (json_object_array_add(array, o) < 0) {
                json_object_put(o);
                return -ENOMEM;
        }
        *ret = o;
        return 0;
}

static int fill_settings(json_object *o, const Settings *s) {
        if (settings_has(s, SETTINGS_PRIORITY))
                JSON_TRY(json_add_int(o, settings_key_to_string(SETTINGS_PRIORITY), s->priority));
        if (settings_has(s, SETTINGS_WEIGHT))
                JSON_TRY(json_add_u64(o, settings_key_to_string(SETTINGS_WEIGHT), s->weight));
        if (settings_has(s, SETTINGS_THRESHOLD))
                JSON_TRY(json_add_u64(o, settings_key_to_string(SETTINGS_THRESHOLD), s->threshold));
        if (settings_has(s, SETTINGS_PREEMPTION))
                JSON_TRY(json_add_string(o, settings_key_to_string(SETTINGS_PREEMPTION),
                                preemption_to_string(s->preemption)));
        if (settings_has(s, SETTINGS_GANG))
                JSON_TRY(json_add_bool(o, settings_key_to_string(SETTINGS_GANG), s->gang));
        if (settings_has(s, SETTINGS_MAX))
                JSON_TRY(json_add_u64(o, settings_key_to_string(SETTINGS_MAX), s->max));
        if (settings_has(s, SETTINGS_MIN))
                JSON_TRY(json_add_u64(o, settings_key_to_string(SETTINGS_MIN), s->min));
        if (settings_has(s, SETTINGS_PERIOD))
                JSON_TRY(json_add_u64(o, settings_key_to_string(SETTINGS_PERIOD), s->period_us));
        if (settings_has(s, SETTINGS_ACCOUNTING))
                JSON_TRY(json_add_string(o, settings_key_to_string(SETTINGS_ACCOUNTING),
                                accounting_to_string(s->accounting)));
        if (settings_has(s, SETTINGS_CLASS))
                JSON_TRY(json_add_string(o, settings_key_to_string(SETTINGS_CLASS), s->class));
        return 0;
}

int json_add_settings(json_object *o, const char *key, const Settings *s) {
        json_object *settings = json_object_new_object();

        JSON_TRY(json_add(o, key, settings));
        return fill_settings(settings, s);
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

void json_get_settings(json_object *o, const char *key, Settings *ret) {
        Settings s = SETTINGS_NULL;
        json_object *all, *v;

        if (json_object_object_get_ex(o, key, &all)) {
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_PRIORITY), &v))
                        (void) settings_set_priority(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_WEIGHT), &v))
                        (void) settings_set_weight(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_THRESHOLD), &v))
                        (void) settings_set_threshold(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_PREEMPTION), &v))
                        (void) settings_set_preemption(&s, json_object_get_string(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_GANG), &v))
                        (void) settings_set_gang(&s, json_object_get_boolean(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_MAX), &v))
                        (void) settings_set_max(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_MIN), &v))
                        (void) settings_set_min(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_PERIOD), &v))
                        (void) settings_set_period(&s, json_object_get_int64(v));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_ACCOUNTING), &v))
                        (void) settings_set_accounting(&s, strempty(json_object_get_string(v)));
                if (json_object_object_get_ex(all, settings_key_to_string(SETTINGS_CLASS), &v))
                        (void) settings_set_class(&s, json_object_get_string(v));
        }
        *ret = s;
}
