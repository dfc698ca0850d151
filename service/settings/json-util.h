/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * JSON: writes and reads the records that the service shows and keeps
 *
 * Everything returns 0 or a negative errno. json_add() takes the value, also when it fails; a NULL value is -ENOMEM, so
 * that the call may contain a constructor.
 */

#include "common/json-add.h"
#include "common/macro.h"
#include "device-settings.h"
#include "settings.h"

static inline void json_object_putp(json_object **o) {
        if (*o)
                json_object_put(*o);
}
#define _cleanup_json_ _cleanup_(json_object_putp)

int json_add_string(json_object *o, const char *key, const char *s); /* NULL is "" */
int json_add_u64(json_object *o, const char *key, uint64_t v);
int json_add_int(json_object *o, const char *key, int v);
int json_add_bool(json_object *o, const char *key, bool v);

/* Appends a new object to an array. */
int json_append_object(json_object *array, json_object **ret);

/* An object with those keys that are set. */
int json_add_settings(json_object *o, const char *key, const Settings *s);

/* Settings of a device, each by its name on the bus. */
int json_fill_device_settings(json_object *o, const DeviceSettings *s);

/* Takes one of them. -ENOENT: there is no such key; -EINVAL, -ERANGE: it cannot have this value. */
int json_take_device_setting(const char *key, json_object *v, DeviceSettings *s);

/* Each reads o[key]; what is missing or of another type is "", 0 or false. */
const char *json_get_string(json_object *o, const char *key);
uint64_t json_get_u64(json_object *o, const char *key);
int json_get_int(json_object *o, const char *key);
bool json_get_bool(json_object *o, const char *key);

/* Values out of range are left out. */
void json_get_settings(json_object *o, const char *key, Settings *ret);

/* Returns from the calling function with the error. */
#define JSON_TRY(call)                                                                                                 \
        do {                                                                                                           \
                int _r = (call);                                                                                       \
                if (_r < 0)                                                                                            \
                        return _r;                                                                                     \
        } while (false)
