/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * GetSettings and RestoreSettings
 *
 * Set and SetPolicy cannot take back every change: an administrator's setting removes what the owner has set, and a
 * setting that is stored for a device replaces what was set for every device until the next boot. This call puts back
 * the layers themselves, if they are still what the caller believes.
 */

#include "restore-dbus.h"
#include "common/bus-names.h"
#include "group-dbus.h"
#include "manager-dbus.h"
#include "policy-dbus.h"
#include "service/core/group-match.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"

/* The settings of a group by their lifetimes, in the order of this table. */
enum { STORED, RUNTIME, OWNER, N_LIFETIMES };

static const char *const lifetimes[N_LIFETIMES] = {"stored", "runtime", "owner"};

typedef struct GroupLifetimes {
        Settings of[N_LIFETIMES];
} GroupLifetimes;

typedef struct Restore {
        Manager *manager;
        const char *target;
        const char *device; /* its id; NULL: a group */
        GroupLifetimes expected, then;
        DeviceLifetimes device_expected, device_then;
} Restore;

/* --- the message --- */

/* Takes a class that does not exist, too: the settings that are restored may name a class that was removed since. */
static int take_setting(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        return bus_take_setting(message, key, signature, userdata, error);
}

static int take_device_setting(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        DeviceSettings *s = userdata;
        const char *name;

        if (!streq(key, "Policy") || !streq(signature, "s"))
                return bus_take_device_setting(message, key, signature, s, error);
        int r = sd_bus_message_read(message, "s", &name);
        return r < 0 ? r : policy_from_name(name, &s->ops, error);
}

/* Reads into `group`, or, if that is NULL, into `device`. */
static int read_lifetime(sd_bus_message *message, GroupLifetimes *group, DeviceLifetimes *device, sd_bus_error *error) {
        const char *lifetime;
        int k = 0;

        int r = sd_bus_message_read(message, "s", &lifetime);
        if (r < 0)
                return r;
        while (k < (group ? N_LIFETIMES : OWNER) && !streq(lifetime, lifetimes[k]))
                k++;
        if (k == (group ? N_LIFETIMES : OWNER))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "There is no lifetime '%s'", lifetime);
        if (group)
                return bus_read_properties(message, take_setting, group->of + k, error);
        return bus_read_properties(
                        message, take_device_setting, k == STORED ? &device->stored : &device->runtime, error);
}

static int read_lifetimes(
                sd_bus_message *message, GroupLifetimes *group, DeviceLifetimes *device, sd_bus_error *error) {
        int r = sd_bus_message_enter_container(message, 'a', "(sa{sv})");

        while (r >= 0 && (r = sd_bus_message_enter_container(message, 'r', "sa{sv}")) > 0) {
                r = read_lifetime(message, group, device, error);
                if (r >= 0)
                        r = sd_bus_message_exit_container(message);
        }
        return r < 0 ? r : sd_bus_message_exit_container(message);
}

static int read_restore(Manager *m, sd_bus_message *message, Restore *ret, sd_bus_error *error) {
        Restore x = {.manager = m};

        int r = sd_bus_message_read(message, "s", &x.target);
        if (r < 0)
                return r;
        r = bus_read_flags(message, error);
        if (r < 0)
                return r;
        x.device = startswith(x.target, "device:");
        r = read_lifetimes(message, x.device ? NULL : &x.expected, &x.device_expected, error);
        if (r >= 0)
                r = read_lifetimes(message, x.device ? NULL : &x.then, &x.device_then, error);
        if (r < 0)
                return r;
        *ret = x;
        return 0;
}

/* --- groups --- */

/* *ret_name: the name that its settings are stored by; NULL: none. `buf` keeps it. */
static int find_group(const Restore *x, Group **ret, const char **ret_name, char **buf, sd_bus_error *error) {
        *ret = group_find(x->manager, x->target);
        if (*ret) {
                *ret_name = group_stored_name(*ret);
                return 0;
        }
        int r = overrides_name(x->target, buf);
        if (r < 0)
                return r;
        *ret_name = *buf;
        if (!overrides_find(&x->manager->overrides, *buf) && settings_is_empty(x->then.of + STORED))
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%s'", x->target);
        return 0;
}

static GroupLifetimes lifetimes_now(const Manager *m, const Group *g, const char *name) {
        const Settings *stored = name ? overrides_find(&m->overrides, name) : NULL;

        return (GroupLifetimes){.of = {
                                                [STORED] = stored ? *stored : SETTINGS_NULL,
                                                [RUNTIME] = g ? g->override : SETTINGS_NULL,
                                                [OWNER] = g ? g->lowering : SETTINGS_NULL,
                                }};
}

/* The keys that differ. */
static unsigned differing(const Settings *a, const Settings *b) {
        unsigned keys = 0;

        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++) {
                Settings one = *a, other = *b;

                one.mask &= 1U << k;
                other.mask &= 1U << k;
                if (!settings_is_equal(&one, &other))
                        keys |= 1U << k;
        }
        return keys;
}

/* An owner may change what the owner has set, as by Set. */
static AuthRequest restore_request(const Restore *x, const Group *g, const char *name) {
        const GroupLifetimes now = lifetimes_now(x->manager, g, name);
        AuthRequest request = {.action = AUTH_MANAGE, .verb = "set", .target = x->target};
        Settings change = x->then.of[OWNER];

        if (!g)
                return request;
        change.unset = now.of[OWNER].mask & ~change.mask;
        request = group_set_request(g, &change);
        if (differing(now.of + STORED, x->then.of + STORED) || differing(now.of + RUNTIME, x->then.of + RUNTIME))
                request.action = AUTH_MANAGE;
        return request;
}

/* Refuses to set a class that does not exist, but leaves it in layers that name it already. */
static int check_classes(Manager *m, const GroupLifetimes *now, const GroupLifetimes *then, sd_bus_error *error) {
        int r = 0;

        for (int k = 0; r >= 0 && k < N_LIFETIMES; k++)
                if (differing(now->of + k, then->of + k) & (1U << SETTINGS_CLASS))
                        r = bus_check_class(m, then->of + k, error);
        return r;
}

static int changed_error(const Restore *x, sd_bus_error *error) {
        return sd_bus_error_setf(error, BUS_ERROR("Changed"),
                        "The settings of %s were changed meanwhile, nothing was restored", x->target);
}

/* Puts the layers back. The lowering layer belongs to the caller if the caller is the owner; else to the owner that it
 * has; else to the user whose processes are in the group. */
static void put_back(sd_bus_message *message, Group *g, const AuthRequest *request, const GroupLifetimes *then) {
        if (auth_is_for_owner(g->manager->auth, message, request))
                group_lowering_of(g, request->owner);
        else if (g->lowering_uid == UID_NONE)
                group_lowering_of(g, group_tree_owner(g));
        g->override = then->of[RUNTIME];
        g->lowering = then->of[OWNER];
}

static int restore_group(const Restore *x, sd_bus_message *message, sd_bus_error *error) {
        _cleanup_free_ char *buf = NULL;
        Settings keys = SETTINGS_NULL;
        Manager *m = x->manager;
        const char *name;
        Group *g;

        int r = find_group(x, &g, &name, &buf, error);
        if (r < 0)
                return r;
        const AuthRequest request = restore_request(x, g, name);
        const GroupLifetimes now = lifetimes_now(m, g, name);
        for (int k = 0; k < N_LIFETIMES; k++) {
                if (!settings_is_equal(now.of + k, x->expected.of + k))
                        return changed_error(x, error);
                keys.unset |= differing(now.of + k, x->then.of + k);
        }
        r = check_classes(m, &now, &x->then, error);
        if (r < 0)
                return r;
        const Settings *stored = x->then.of + STORED;
        bool stores = differing(now.of + STORED, stored);
        if (!g && !(settings_is_empty(x->then.of + RUNTIME) && settings_is_empty(x->then.of + OWNER)))
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%s'", x->target);
        if (stores) {
                if (!group_is_storable(m, name))
                        return sd_bus_error_setf(error, SD_BUS_ERROR_NOT_SUPPORTED,
                                        "Nothing can be stored for %s, nothing was changed", x->target);
                r = group_store(m, name, stored, error);
                if (r < 0)
                        return r;
        }
        if (!g)
                return group_name_apply(m, name, message, settings_is_empty(stored) ? NULL : stored, now.of + STORED);
        put_back(message, g, &request, &x->then);
        return group_apply(g, message, &keys, stores);
}

/* --- what is set now --- */

static int append_group(const Restore *x, sd_bus_message *reply, sd_bus_error *error) {
        _cleanup_free_ char *buf = NULL;
        const char *name;
        Group *g;

        int r = find_group(x, &g, &name, &buf, error);
        if (r < 0)
                return r;
        const GroupLifetimes now = lifetimes_now(x->manager, g, name);
        for (int k = 0; r >= 0 && k < N_LIFETIMES; k++)
                r = bus_append_lifetime(reply, NULL, lifetimes[k], now.of + k);
        return r;
}

static int append_device(const Restore *x, sd_bus_message *reply, sd_bus_error *error) {
        DeviceLifetimes now;

        int r = device_lifetimes(x->manager, x->device, &now, error);
        if (r >= 0)
                r = bus_append_device_lifetime(reply, NULL, lifetimes[STORED], &now.stored);
        return r < 0 ? r : bus_append_device_lifetime(reply, NULL, lifetimes[RUNTIME], &now.runtime);
}

int method_get_settings(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        Restore x = {.manager = userdata};

        int r = sd_bus_message_read(message, "s", &x.target);
        if (r >= 0)
                r = bus_read_flags(message, error);
        if (r >= 0)
                r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(sa{sv})");
        if (r < 0)
                return r;
        x.device = startswith(x.target, "device:");
        r = x.device ? append_device(&x, reply, error) : append_group(&x, reply, error);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_send(reply);
}

/* --- restoring --- */

int check_restore_settings(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_free_ char *buf = NULL;
        Manager *m = userdata;
        const char *name;
        Restore x;
        Group *g;

        int r = read_restore(m, message, &x, error);
        if (r < 0)
                return r;
        if (x.device)
                return check_change_device(m, message, x.device, error);
        r = find_group(&x, &g, &name, &buf, error);
        if (r < 0)
                return r;
        const AuthRequest request = restore_request(&x, g, name);
        return auth_check(m->auth, message, &request, error);
}

BUS_MANAGER_CHANGE(method_restore_settings) {
        Restore x;

        int r = read_restore(m, message, &x, error);
        if (r < 0)
                return r;
        if (!x.device)
                return restore_group(&x, message, error);
        r = restore_device(m, message, x.device, &x.device_expected, &x.device_then, error);
        if (r == -ESTALE)
                return changed_error(&x, error);
        return r < 0 ? r : bus_answer(m, message, NULL);
}
