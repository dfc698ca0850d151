/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Groups on the bus
 */

#include <limits.h>

#include "arbiter.h"
#include "job.h"
#include "log.h"
#include "manager-dbus.h"
#include "manager-state.h"
#include "messages.h"

#define GROUP_PREFIX BUS_PATH "/group"

BUS_GETTER(get_kind) {
        const Group *g = userdata;
        return sd_bus_message_append(reply, "s", group_kind_to_string(g->kind));
}

/* A job's name tells of no cgroup. */
BUS_GETTER(get_container) {
        const Group *g = userdata;
        return bus_append_container(reply, property, g->name);
}

BUS_GETTER(get_run) {
        PolicyUsage u;
        group_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.run_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_wait) {
        PolicyUsage u;
        group_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.wait_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_preempted) {
        PolicyUsage u;
        group_usage(userdata, now_ns(), &u);
        return sd_bus_message_append(reply, "t", u.n_preempted);
}

/* Frees a group that was made for settings which are gone again. */
static void group_apply(Group *g) {
        Manager *m = g->manager;

        group_settings_changed(g);
        groups_below_changed(g);
        group_gc(g);
        manager_state_changed(m);
        arbiter_flush(m);
}

static void log_settings(const Group *g, const char *what) {
        log_event(LOG_INFO, MESSAGE_SETTINGS_CHANGED, LOG_FIELDS(.group = g->name), "Settings of %s: %s",
                        g->name, what);
}

BUS_SETTINGS_GETTERS(Group)

BUS_GETTER(get_gang) {
        const Group *x = userdata;
        return sd_bus_message_append(reply, "b", (int) x->resolved.policy.gang);
}

BUS_GETTER(get_class) {
        const Group *x = userdata;
        return sd_bus_message_append(reply, "s", x->resolved.class);
}

/* Authorised by property_filter(). */
BUS_SETTER(set_setting) {
        Group *g = userdata;

        int r = bus_read_setting(g->manager, value, property, &g->override, error);
        if (r < 0)
                return r;
        log_settings(g, property);
        group_apply(g);
        return 0;
}

static int set_override(sd_bus_message *message, Group *g, const Settings *s, sd_bus_error *error) {
        PolicySettings changed;

        group_would_be(g, s, &changed);
        int r = bus_check_set(
                        g->manager, message, &g->resolved.policy, &changed, group_owner(g), g->name, error);
        if (r <= 0)
                return r < 0 ? r : 1;
        settings_merge(&g->override, s);
        log_settings(g, "changed");
        group_apply(g);
        return sd_bus_reply_method_return(message, NULL);
}

/* With the flags still to be read. */
static int reset_override(sd_bus_message *message, Group *g, sd_bus_error *error) {
        int r = bus_check_reset(g->manager, message, g->name, error);
        if (r <= 0)
                return r < 0 ? r : 1;
        g->override = SETTINGS_NULL;
        log_settings(g, "reset");
        group_apply(g);
        return sd_bus_reply_method_return(message, NULL);
}

BUS_METHOD(method_set) {
        Group *g = userdata;
        Settings s;

        int r = bus_read_set(g->manager, message, &s, error);
        return r < 0 ? r : set_override(message, g, &s, error);
}

BUS_METHOD(method_reset) {
        return reset_override(message, userdata, error);
}

static int suspend(sd_bus_message *message, Group *g, bool suspended, sd_bus_error *error) {
        Manager *m = g->manager;

        int r = bus_check_suspend(m, message, suspended, g->name, error);
        if (r <= 0)
                return r < 0 ? r : 1;
        log_event(LOG_NOTICE, suspended ? MESSAGE_SUSPENDED : MESSAGE_RESUMED, LOG_FIELDS(.group = g->name),
                        "%s %s", suspended ? "Suspended" : "Resumed", g->name);
        group_set_suspended(g, suspended);
        group_gc(g);
        manager_state_changed(m);
        arbiter_flush(m);
        return sd_bus_reply_method_return(message, NULL);
}

BUS_METHOD(method_suspend) {
        return suspend(message, userdata, true, error);
}

BUS_METHOD(method_resume) {
        return suspend(message, userdata, false, error);
}

/* --- of the manager --- */

static int no_such_group(const char *name, sd_bus_error *error) {
        return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%.256s'", name);
}

/* What a group that is not there yet may be called: a cgroup, or a unit whose cgroup will be known when it has a client. */
static bool group_name_is_valid(const char *name) {
        size_t n = strlen(name);

        if (n == 0 || n >= PATH_MAX || startswith(name, "job:"))
                return false;
        if (name[0] == '/')
                return n == 1 || name[n - 1] != '/';
        return !strchr(name, '/') && strchr(name, '.');
}

int method_set_group(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Manager *m = userdata;
        const char *name;
        Settings s;

        int r = sd_bus_message_read(message, "s", &name);
        if (r < 0)
                return r;
        r = bus_read_set(m, message, &s, error);
        if (r < 0)
                return r;

        Group *g = group_find(m, name);
        if (g)
                return set_override(message, g, &s, error);
        if (!group_name_is_valid(name))
                return no_such_group(name, error);
        if (settings_is_empty(&s))
                return sd_bus_reply_method_return(message, NULL);

        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "set", .target = name};
        r = auth_check(m->auth, message, &request, error);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = group_get(m, name, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        g->override = s;
        log_settings(g, "made in advance");
        group_apply(g);
        return sd_bus_reply_method_return(message, NULL);
}

int method_reset_group(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const char *name;

        int r = sd_bus_message_read(message, "s", &name);
        if (r < 0)
                return r;
        Group *g = group_find(userdata, name);
        return g ? reset_override(message, g, error) : no_such_group(name, error);
}

static const sd_bus_vtable group_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_PROPERTY("Name", "s", NULL, offsetof(Group, name), BUS_CONST),
                SD_BUS_PROPERTY("Kind", "s", get_kind, 0, BUS_CONST),
                SD_BUS_PROPERTY("Unit", "s", NULL, offsetof(Group, unit), BUS_CONST),
                SD_BUS_PROPERTY("Container", "s", get_container, 0, BUS_CONST),
                SD_BUS_PROPERTY("Pod", "s", get_container, 0, BUS_CONST),
                SD_BUS_PROPERTY("PodQOS", "s", get_container, 0, BUS_CONST),
                SD_BUS_PROPERTY("SlurmJob", "s", get_container, 0, BUS_CONST),
                SD_BUS_WRITABLE_PROPERTY(
                                "Class", "s", get_class, set_setting, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Priority", "i", get_priority, set_setting, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Weight", "u", get_weight, set_setting, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY(
                                "Threshold", "u", get_threshold, set_setting, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("Preemption", "s", get_preemption, set_setting, 0,
                                BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("Gang", "b", get_gang, set_setting, 0, BUS_CHANGES | BUS_ANY_USER),
                SD_BUS_PROPERTY("PolicySource", "s", bus_get_source, offsetof(Group, resolved.source),
                                BUS_CHANGES),
                SD_BUS_PROPERTY("Suspended", "b", bus_get_bool, offsetof(Group, suspended), BUS_CHANGES),
                SD_BUS_PROPERTY("NClients", "u", NULL, offsetof(Group, n_clients), 0),
                SD_BUS_PROPERTY("RunUSec", "t", get_run, 0, 0),
                SD_BUS_PROPERTY("WaitUSec", "t", get_wait, 0, 0),
                SD_BUS_PROPERTY("NPreempted", "t", get_preempted, 0, 0),

                SD_BUS_METHOD_WITH_ARGS("Set", SD_BUS_ARGS("t", flags, "a{sv}", settings), SD_BUS_NO_RESULT,
                                method_set, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS("Reset", SD_BUS_ARGS("t", flags), SD_BUS_NO_RESULT, method_reset,
                                BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS(
                                "Suspend", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_suspend, BUS_ANY_USER),
                SD_BUS_METHOD_WITH_ARGS(
                                "Resume", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_resume, BUS_ANY_USER),

                SD_BUS_VTABLE_END,
};

int group_from_path(Manager *m, const char *path, Group **ret) {
        _cleanup_free_ char *name = NULL;
        Group *g;

        int r = sd_bus_path_decode(path, GROUP_PREFIX, &name);
        if (r <= 0)
                return r;
        HASH_FIND_STR(m->groups, name, g);
        if (!g)
                return 0;
        *ret = g;
        return 1;
}

BUS_FIND(group_object_find) {
        return group_from_path(userdata, path, (Group **) found);
}

BUS_ENUMERATOR(group_enumerate) {
        Manager *m = userdata;
        Group *g, *tmp;
        BusPaths paths = {0};

        HASH_ITER(hh, m->groups, g, tmp)
                bus_paths_add(&paths, g->path);
        return bus_paths_take(&paths, nodes);
}

int group_dbus_attach(Manager *m, sd_bus *bus) {
        return bus_add_objects(bus, m, GROUP_PREFIX, BUS_INTERFACE ".Group", group_vtable, group_object_find,
                        group_enumerate);
}
