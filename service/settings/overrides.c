/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads and writes overrides
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-path.h"
#include "cgroup/unit-query.h"
#include "common/parse-util.h"
#include "json-util.h"
#include "overrides.h"
#include "service/base/state-file.h"

#define DEPTH_MAX     8
#define UNIT_NAME_MAX 255U /* systemd's */

/* --- names --- */

/* The rules of systemd.unit(5), for the kinds of units that have a cgroup. */
static bool unit_name_is_valid(const char *name) {
        static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@";
        static const char *const suffixes[] = {".service", ".scope", ".slice"};
        size_t n = strlen(name);

        if (n > UNIT_NAME_MAX || strspn(name, ok) != n || name[0] == '@')
                return false;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (n > strlen(suffixes[i]) && endswith(name, suffixes[i]))
                        return true;
        return false;
}

bool overrides_name_is_valid(const char *name) {
        if (name[0] != '/')
                return unit_name_is_valid(name);
        return cgroup_path_is_normal(name) && string_is_printable(name);
}

int overrides_name(const char *group, char **ret) {
        char *name = NULL;

        int r = group[0] == '/' ? cgroup_path_is_unit(group, &name) : 0;
        if (r < 0)
                return r;
        if (!name)
                name = strdup(group);
        if (!name)
                return -ENOMEM;
        *ret = name;
        return 0;
}

/* --- entries --- */

static OverridesEntry *entry_find(const Overrides *s, const char *name) {
        OverridesEntry *e;

        HASH_FIND_STR(s->entries, name, e);
        return e;
}

static OverridesEntry *entry_free(OverridesEntry *e) {
        if (e) {
                free(e->name);
                free(e);
        }
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(OverridesEntry *, entry_free);

static int entry_new(const char *name, const Settings *settings, OverridesEntry **ret) {
        _cleanup_(entry_freep)
        OverridesEntry *e = calloc(1, sizeof(*e));

        if (!e)
                return -ENOMEM;
        e->name = strdup(name);
        if (!e->name)
                return -ENOMEM;
        e->settings = *settings;
        if (name[0] == '/' && (cgroup_id(name, &e->cgroup_id) < 0 || boot_id_read(e->boot) < 0))
                e->cgroup_id = 0;
        *ret = TAKE_PTR(e);
        return 0;
}

/* Replaces the entry of the name. Takes ownership of `e`; NULL: the name has none from here on. */
static void put_entry(Overrides *s, const char *name, OverridesEntry *e) {
        OverridesEntry *former = entry_find(s, name);

        if (former) {
                HASH_DEL(s->entries, former);
                entry_free(former);
        }
        if (e)
                HASH_ADD_KEYPTR(hh, s->entries, e->name, strlen(e->name), e);
}

const Settings *overrides_find(const Overrides *s, const char *name) {
        const OverridesEntry *e = name ? entry_find(s, name) : NULL;

        return e ? &e->settings : NULL;
}

/* --- devices --- */

static void devices_free(OverridesDevice **devices) {
        OverridesDevice *d, *tmp;

        HASH_ITER(hh, *devices, d, tmp) {
                HASH_DEL(*devices, d);
                free(d->id);
                free(d);
        }
}

/* Adds the settings of a device, unless they are empty. */
static int add_device(OverridesDevice **devices, const char *id, const DeviceSettings *settings) {
        if (device_settings_is_empty(settings))
                return 0;
        OverridesDevice *d = calloc(1, sizeof(*d));
        char *copy = strdup(id);
        if (!d || !copy) {
                free(d);
                free(copy);
                return -ENOMEM;
        }
        *d = (OverridesDevice){.id = copy, .settings = *settings};
        HASH_ADD_KEYPTR(hh, *devices, d->id, strlen(d->id), d);
        return 0;
}

static OverridesDevice *overridden_device(const Overrides *s, const char *id) {
        OverridesDevice *d;

        HASH_FIND_STR(s->devices, id, d);
        return d;
}

const DeviceSettings *overrides_find_device(const Overrides *s, const char *id) {
        const OverridesDevice *d = overridden_device(s, id);

        return d ? &d->settings : NULL;
}

static DeviceSettings changed_device(const Overrides *s, const char *id, const DeviceSettings *set, unsigned forget) {
        const DeviceSettings *former = overrides_find_device(s, id);
        DeviceSettings settings = former ? *former : DEVICE_SETTINGS_NULL;

        device_settings_forget(&settings, forget);
        device_settings_merge(&settings, set);
        return settings;
}

/* Makes a copy of the stored settings of all devices, with the change. */
static int changed_devices(
                const Overrides *s, const char *id, const DeviceSettings *set, unsigned forget, OverridesDevice **ret) {
        const DeviceSettings changed = changed_device(s, id, set, forget);
        const OverridesDevice *d, *tmp;
        OverridesDevice *devices = NULL;

        int r = add_device(&devices, id, &changed);
        HASH_ITER(hh, s->devices, d, tmp) {
                DeviceSettings left = d->settings;

                if (r < 0 || streq(d->id, id))
                        continue;
                if (streq(id, OVERRIDES_EVERY_DEVICE))
                        device_settings_forget(&left, forget | device_settings_keys(set));
                r = add_device(&devices, d->id, &left);
        }
        if (r >= 0 && HASH_COUNT(devices) > OVERRIDES_DEVICES)
                r = -E2BIG;
        if (r < 0)
                devices_free(&devices);
        else
                *ret = devices;
        return r;
}

void overrides_done(Overrides *s) {
        OverridesEntry *e, *tmp;

        HASH_ITER(hh, s->entries, e, tmp) {
                HASH_DEL(s->entries, e);
                entry_free(e);
        }
        devices_free(&s->devices);
        free(s->directory);
        *s = OVERRIDES_NULL;
}

/* --- reading --- */

#define complain(why, ...) (void) snprintf(why, OVERRIDES_WHY_MAX, __VA_ARGS__)

/* Only the first problem is reported. */
#define complain_once(why, ...)                                                                                        \
        do {                                                                                                           \
                if (isempty(why))                                                                                      \
                        complain(why, __VA_ARGS__);                                                                    \
        } while (false)

/* Takes one setting. In this file a time without a unit is in microseconds; in the files that people write it is in
 * seconds. */
static int parse_setting(Settings *ret, const char *key, json_object *v) {
        int k = settings_key_from_string(key);

        if (k >= 0 && streq(settings_key_signature((SettingsKey) k), "t") && json_object_is_type(v, json_type_int))
                return settings_set_number(ret, (SettingsKey) k, json_object_get_int64(v));
        return settings_set_string(ret, key, json_object_get_string(v));
}

static void parse_settings(json_object *o, const char *name, Settings *ret, char why[static OVERRIDES_WHY_MAX]) {
        if (!json_object_is_type(o, json_type_object)) {
                complain_once(why, "%.64s has no settings", name);
                return;
        }
        json_object_object_foreach(o, key, v) {
                if (!v || parse_setting(ret, key, v) < 0)
                        complain_once(why, "%.64s: %.64s has no value that it could have", name, key);
        }
}

/* Ignores a boot id that is too long. If it were cut off, it could end within a character, and make invalid JSON
 * when it is written. */
static void parse_boot(OverridesEntry *e, json_object *o) {
        const char *boot = json_get_string(o, "boot");

        (void) snprintf(e->boot, sizeof(e->boot), "%s", strlen(boot) < sizeof(e->boot) ? boot : "");
}

static int parse_entry(Overrides *s, json_object *o, char why[static OVERRIDES_WHY_MAX]) {
        const char *name = json_get_string(o, "name");
        Settings settings = SETTINGS_NULL;
        json_object *v = NULL;
        OverridesEntry *e;

        if (!overrides_name_is_valid(name)) {
                complain_once(why, "'%.64s' is no name for a group", name);
                return 0;
        }
        (void) json_object_object_get_ex(o, "settings", &v);
        parse_settings(v, name, &settings, why);
        if (settings_is_empty(&settings))
                return 0;
        if (HASH_COUNT(s->entries) >= OVERRIDES_MAX) {
                complain_once(why, "there are more than %u entries", OVERRIDES_MAX);
                return 0;
        }
        int r = entry_new(name, &settings, &e);
        if (r < 0)
                return r;
        parse_boot(e, o);
        e->cgroup_id = json_get_u64(o, "cgroup");
        put_entry(s, name, e);
        return 0;
}

static void parse_device_settings(
                json_object *o, const char *id, DeviceSettings *ret, char why[static OVERRIDES_WHY_MAX]) {
        if (!json_object_is_type(o, json_type_object)) {
                complain_once(why, "device %.64s has no settings", id);
                return;
        }
        json_object_object_foreach(o, key, v) if (json_take_device_setting(key, v, ret) < 0)
                        complain_once(why, "device %.64s: %.64s has no value that it could have", id, key);
}

static int parse_device(Overrides *s, json_object *o, char why[static OVERRIDES_WHY_MAX]) {
        const char *id = json_get_string(o, "id");
        DeviceSettings settings = DEVICE_SETTINGS_NULL;
        json_object *v = NULL;

        if (!device_id_is_valid(id) && !streq(id, OVERRIDES_EVERY_DEVICE)) {
                complain_once(why, "'%.64s' is no device", id);
                return 0;
        }
        if (overridden_device(s, id)) {
                complain_once(why, "device %.64s is there twice", id);
                return 0;
        }
        (void) json_object_object_get_ex(o, "settings", &v);
        parse_device_settings(v, id, &settings, why);
        if (HASH_COUNT(s->devices) >= OVERRIDES_DEVICES) {
                complain_once(why, "there are more than %u devices", OVERRIDES_DEVICES);
                return 0;
        }
        return add_device(&s->devices, id, &settings);
}

static int parse_each(Overrides *s, json_object *array,
                int (*parse)(Overrides *s, json_object *o, char why[static OVERRIDES_WHY_MAX]),
                char why[static OVERRIDES_WHY_MAX]) {
        for (size_t i = 0; i < json_object_array_length(array); i++) {
                json_object *o = json_object_array_get_idx(array, i);

                if (!json_object_is_type(o, json_type_object)) {
                        complain_once(why, "entry %zu is invalid", i);
                        continue;
                }
                int r = parse(s, o, why);
                if (r < 0)
                        return r;
        }
        return 0;
}

static json_object *parse_json(const char *text, size_t size, char why[static OVERRIDES_WHY_MAX]) {
        json_tokener *t = json_tokener_new_ex(DEPTH_MAX);
        json_object *o = NULL;

        if (!t)
                return NULL;
        json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        /* The parser also gets the zero byte at the end: otherwise it could not tell the end of a number from its
         * middle. */
        if (size < STATE_FILE_SIZE_MAX)
                o = json_tokener_parse_ex(t, text, (int) size + 1);
        enum json_tokener_error error = json_tokener_get_error(t);
        if (!o && (error == json_tokener_continue || json_tokener_get_parse_end(t) >= size))
                complain(why, "it ends too early");
        else if (!o)
                complain(why, "it is no JSON, at byte %zu", json_tokener_get_parse_end(t));
        json_tokener_free(t);
        return o;
}

static int parse_root(Overrides *s, json_object *root, char why[static OVERRIDES_WHY_MAX]) {
        json_object *version, *settings, *devices;

        if (!json_object_object_get_ex(root, "version", &version) || !json_object_is_type(version, json_type_int) ||
                        !json_object_object_get_ex(root, "overrides", &settings) ||
                        !json_object_is_type(settings, json_type_array)) {
                complain(why, "it has no version, or no overrides");
                return -EBADMSG;
        }
        if (json_object_get_int64(version) != OVERRIDES_VERSION) {
                complain(why, "it is of version %" PRIi64 ", this is %i", json_object_get_int64(version),
                                OVERRIDES_VERSION);
                return -EBADMSG;
        }
        int r = parse_each(s, settings, parse_entry, why);
        if (r < 0)
                return r;
        /* Files of former versions have no devices. */
        if (json_object_object_get_ex(root, "devices", &devices)) {
                if (!json_object_is_type(devices, json_type_array))
                        complain_once(why, "its devices are no list");
                else
                        r = parse_each(s, devices, parse_device, why);
        }
        return r < 0 ? r : !isempty(why);
}

int overrides_parse(Overrides *s, const char *text, size_t size, char why[static OVERRIDES_WHY_MAX]) {
        why[0] = '\0';
        if (size == 0) {
                complain(why, "it is empty");
                return -EBADMSG;
        }
        if (memchr(text, '\0', size)) {
                complain(why, "it has zero bytes");
                return -EBADMSG;
        }
        _cleanup_json_ json_object *root = parse_json(text, size, why);
        if (!root)
                return isempty(why) ? -ENOMEM : -EBADMSG;
        if (!json_object_is_type(root, json_type_object)) {
                complain(why, "it is no JSON object");
                return -EBADMSG;
        }
        return parse_root(s, root, why);
}

static int set_aside(Overrides *s, char why[static OVERRIDES_WHY_MAX], const char *reason) {
        int r = state_file_set_aside(s->directory, OVERRIDES_FILE);

        if (r >= 0)
                complain(why, "%s/" OVERRIDES_FILE ": %s; kept as " OVERRIDES_FILE ".bad", s->directory, reason);
        else
                complain(why, "%s/" OVERRIDES_FILE ": %s; it could not be kept aside: %s", s->directory, reason,
                                strerror(-r));
        return r;
}

static int write_file(const Overrides *s) {
        _cleanup_free_ char *text = NULL;
        size_t size;

        int r = overrides_print(s, &text, &size);
        return r < 0 ? r : state_file_write(s->directory, OVERRIDES_FILE, text, size);
}

int overrides_open(const char *directory, Overrides *ret, char why[static OVERRIDES_WHY_MAX]) {
        _cleanup_(overrides_done)
        Overrides s = {.directory = strdup(directory)};
        _cleanup_free_ char *text = NULL;
        char reason[OVERRIDES_WHY_MAX] = "";
        size_t size;

        why[0] = '\0';
        if (!s.directory)
                return -ENOMEM;
        int r = state_file_read(directory, OVERRIDES_FILE, &text, &size);
        if (r >= 0)
                r = overrides_parse(&s, text, size, reason);
        else if (r != -ENOENT)
                complain(reason, "it cannot be read: %s", strerror(-r));
        if (r == -ENOMEM)
                return r;
        if (!isempty(reason)) {
                /* Writes the valid entries to a new file of the same name at once. */
                if (set_aside(&s, why, reason) >= 0 && (s.entries || s.devices))
                        (void) write_file(&s);
        }
        *ret = TAKE_GENERIC(s, OVERRIDES_NULL);
        return isempty(why) ? 0 : 1;
}

/* --- writing --- */

static int compare_entries(const OverridesEntry *a, const OverridesEntry *b) {
        return strcmp(a->name, b->name);
}

static int compare_devices(const OverridesDevice *a, const OverridesDevice *b) {
        return strcmp(a->id, b->id);
}

static int fill_devices(const Overrides *s, json_object *root) {
        json_object *array = json_object_new_array(), *o, *settings;
        const OverridesDevice *d, *tmp;

        JSON_TRY(json_add(root, "devices", array));
        HASH_ITER(hh, s->devices, d, tmp) {
                JSON_TRY(json_append_object(array, &o));
                JSON_TRY(json_add_string(o, "id", d->id));
                JSON_TRY(json_add(o, "settings", settings = json_object_new_object()));
                JSON_TRY(json_fill_device_settings(settings, &d->settings));
        }
        return 0;
}

static int fill(const Overrides *s, json_object *root) {
        json_object *array = json_object_new_array(), *o;
        const OverridesEntry *e, *tmp;

        JSON_TRY(json_add_int(root, "version", OVERRIDES_VERSION));
        JSON_TRY(json_add(root, "overrides", array));
        HASH_ITER(hh, s->entries, e, tmp) {
                JSON_TRY(json_append_object(array, &o));
                JSON_TRY(json_add_string(o, "name", e->name));
                JSON_TRY(json_add_settings(o, "settings", &e->settings));
                if (e->cgroup_id == 0)
                        continue;
                JSON_TRY(json_add_string(o, "boot", e->boot));
                JSON_TRY(json_add_u64(o, "cgroup", e->cgroup_id));
        }
        return s->devices ? fill_devices(s, root) : 0;
}

int overrides_print(const Overrides *s, char **ret, size_t *ret_size) {
        _cleanup_json_ json_object *root = json_object_new_object();

        if (!root)
                return -ENOMEM;
        int r = fill(s, root);
        if (r < 0)
                return r;
        const char *text = json_object_to_json_string_ext(
                        root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
        if (!text || asprintf(ret, "%s\n", text) < 0)
                return -ENOMEM;
        *ret_size = strlen(*ret);
        return 0;
}

int overrides_set(Overrides *s, const char *name, const Settings *settings) {
        _cleanup_(entry_freep)
        OverridesEntry *e = NULL, *undo = NULL;
        const OverridesEntry *former = entry_find(s, name);

        if (!overrides_is_open(s))
                return -EOPNOTSUPP;
        if (former ? settings_is_equal(&former->settings, settings) : settings_is_empty(settings))
                return 0;
        if (!former && HASH_COUNT(s->entries) >= OVERRIDES_MAX)
                return -E2BIG;
        int r = settings_is_empty(settings) ? 0 : entry_new(name, settings, &e);
        if (r >= 0 && former)
                r = entry_new(name, &former->settings, &undo);
        if (r < 0)
                return r;

        put_entry(s, name, TAKE_PTR(e));
        HASH_SORT(s->entries, compare_entries);
        r = write_file(s);
        if (r < 0)
                put_entry(s, name, TAKE_PTR(undo));
        return r;
}

int overrides_change_device(Overrides *s, const char *id, const DeviceSettings *set, unsigned forget) {
        const DeviceSettings none = DEVICE_SETTINGS_NULL, *now = overrides_find_device(s, id);
        const DeviceSettings then = changed_device(s, id, set, forget);
        OverridesDevice *former = s->devices, *changed = NULL;

        if (!overrides_is_open(s))
                return -EOPNOTSUPP;
        if (!streq(id, OVERRIDES_EVERY_DEVICE) && device_settings_equal(now ?: &none, &then))
                return 0;
        int r = changed_devices(s, id, set, forget, &changed);
        if (r < 0)
                return r;
        HASH_SORT(changed, compare_devices);
        s->devices = changed;
        r = write_file(s);
        if (r < 0)
                s->devices = former;
        devices_free(r < 0 ? &changed : &former);
        return r;
}
