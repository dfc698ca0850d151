/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Groups on the bus
 */

#include "group-dbus.h"
#include "audit.h"
#include "cgroup/unit-alias.h"
#include "common/bus-names.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/core/account.h"
#include "service/core/client.h"
#include "service/core/gone-watch.h"
#include "service/core/gone.h"
#include "service/core/job.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"
#include "service/core/observer.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/core/usage.h"
#include "service/enforce/freeze.h"
#include "spread.h"
#include "suspend-dbus.h"
#include "waits-dbus.h"

BUS_GETTER(get_waits) {
        return waits_append_group(reply, userdata);
}

BUS_GETTER(get_kind) {
        const Group *g = userdata;
        return sd_bus_message_append(reply, "s", group_kind_to_string(g->kind));
}

/* The name of a job names no cgroup. */
BUS_GETTER(get_container) {
        const Group *g = userdata;
        return bus_append_container(reply, property, g->name);
}

BUS_GETTER(get_suspended) {
        return sd_bus_message_append(reply, "b", (int) (group_suspended_by(userdata) != NULL));
}

BUS_GETTER(get_suspended_by) {
        const Group *by = group_suspended_by(userdata);
        return sd_bus_message_append(reply, "s", by ? by->name : "");
}

BUS_GETTER(get_frozen) {
        return sd_bus_message_append(reply, "b", (int) group_is_frozen(userdata));
}

#define USAGE_GETTER(name, field, unit)                                                                                \
        BUS_GETTER(name) {                                                                                             \
                PolicyUsage u;                                                                                         \
                group_usage(userdata, now_ns(), &u);                                                                   \
                return sd_bus_message_append(reply, "t", u.field / (unit));                                            \
        }

USAGE_GETTER(get_run, run_ns, NSEC_PER_USEC)
USAGE_GETTER(get_wait, wait_ns, NSEC_PER_USEC)
USAGE_GETTER(get_kept, kept_ns, NSEC_PER_USEC)
USAGE_GETTER(get_drain_wait, drain_wait_ns, NSEC_PER_USEC)
USAGE_GETTER(get_preempted, n_preempted, 1)

BUS_GETTER(get_service_wait) {
        return sd_bus_message_append(reply, "t", group_service_wait(userdata) / NSEC_PER_USEC);
}

BUS_GETTER(get_gpu_time) {
        return sd_bus_message_append(reply, "t", group_gpu_time(userdata, now_ns()) / NSEC_PER_USEC);
}

BUS_GETTER(get_gpu_time_source) {
        return sd_bus_message_append(reply, "s", account_source_to_string(account_group_source(userdata)));
}

BUS_GETTER(get_parent) {
        const Group *g = userdata;
        return sd_bus_message_append(reply, "s", g->parent ? g->parent->name : "");
}

static AuditObject group_object(const char *name, bool stored) {
        return (AuditObject){
                        .fields = {.group = name},
                        .name = name,
                        .how = stored ? " (stored)" : NULL,
        };
}

int group_apply(Group *g, sd_bus_message *message, const Settings *set, bool stored) {
        const SettingsResolved before = g->resolved;
        const AuditObject o = group_object(g->name, stored);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        Manager *m = g->manager;
        _cleanup_free_ char *name = strdup(g->name);

        if (!name)
                return -ENOMEM;
        group_own_settings_changed(g);
        audit_begin(m, message, &a);
        if (set)
                audit_settings(&a, &o, &before, &g->resolved, set);
        else
                audit_reset(&a, &o, &before, &g->resolved);
        gone_note(g);
        observers_group_changed(g, GROUP_KEPT);
        group_gc(g);
        return spread_group(m, name, message);
}

int group_name_apply(
                Manager *m, const char *name, sd_bus_message *message, const Settings *set, const Settings *former) {
        const AuditObject o = group_object(name, true);
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;

        audit_begin(m, message, &a);
        if (set)
                audit_settings(&a, &o, NULL, NULL, set);
        else
                audit_forgotten(&a, &o, former);
        return spread_group(m, name, message);
}

BUS_SETTINGS_GETTER(Group)

/* --- what is stored --- */

bool group_is_storable(const Manager *m, const char *name) {
        return overrides_is_open(&m->overrides) && name && !startswith(name, "job:") && !strstr(name, ".scope");
}

int group_store(Manager *m, const char *name, const Settings *s, sd_bus_error *error) {
        int r = overrides_set(&m->overrides, name, s);

        if (r == -E2BIG)
                return sd_bus_error_setf(error, BUS_ERROR("QuotaExceeded"), "More than %u groups with stored settings",
                                OVERRIDES_MAX);
        if (r < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_IO_ERROR,
                                "The settings of %s could not be stored in %s, nothing was changed: %s", name,
                                m->overrides.directory, strerror(-r));
        gone_watch(m, name);
        return 0;
}

static int store_more(Manager *m, const char *name, const Settings *add, sd_bus_error *error) {
        const Settings *former = overrides_find(&m->overrides, name);
        Settings s = former ? *former : SETTINGS_NULL;

        settings_merge(&s, add);
        return group_store(m, name, &s, error);
}

/* --- setting and resetting --- */

static bool is_kept(const Group *g, uint64_t flags) {
        return flags & SET_FLAG_PERSISTENT && group_is_storable(g->manager, group_stored_name(g));
}

static int check_settings(sd_bus_message *message, Group *g, uint64_t flags, const Settings *s, sd_bus_error *error) {
        AuthRequest request = group_set_request(g, s);

        if (is_kept(g, flags))
                request.action = AUTH_MANAGE; /* a stored setting outlives its owner's right to make it */
        return auth_check(g->manager->auth, message, &request, error);
}

BUS_CHECK(check_setting) {
        Settings s = SETTINGS_NULL;
        Group *g = userdata;

        int r = bus_read_setting(g->manager, message, member, &s, error);
        return r < 0 ? r : check_settings(message, g, 0, &s, error);
}

/* Sets them until the next boot. */
static void take_settings(sd_bus_message *message, Group *g, const Settings *s) {
        AuthRequest request = group_set_request(g, s);
        bool lowers = auth_is_for_owner(g->manager->auth, message, &request);

        if (lowers)
                group_lowering_of(g, request.owner);
        bus_take_settings(g->manager, s, lowers, &g->override, &g->lowering);
}

BUS_SETTER(set_setting, Group *g, g->manager) {
        Settings s = SETTINGS_NULL;

        int r = bus_read_setting(g->manager, value, property, &s, error);
        if (r < 0)
                return r;
        take_settings(value, g, &s);
        r = group_apply(g, value, &s, false);
        return r < 0 ? r : SETTER_ANSWERS;
}

/* Stored settings replace those until the next boot. */
static void give_way_to_stored(Group *g, const Settings *s) {
        g->override.mask &= ~(s->mask | s->unset);
        settings_give_way(&g->lowering, s, manager_lookup_class, g->manager);
        g->lowering.mask &= ~s->unset;
}

static int set_override(sd_bus_message *message, Group *g, uint64_t flags, const Settings *s, sd_bus_error *error) {
        bool keep = is_kept(g, flags);

        if (keep) {
                int r = store_more(g->manager, group_stored_name(g), s, error);
                if (r < 0)
                        return r;
                give_way_to_stored(g, s);
        } else
                take_settings(message, g, s);
        return group_apply(g, message, s, keep);
}

/* Does to a copy of the group what set_override() would do to the group. */
void group_would_be(sd_bus_message *message, const Group *g, uint64_t flags, const Settings *s, Group *ret) {
        const char *name = group_stored_name(g);
        const Settings *former = name ? overrides_find(&g->manager->overrides, name) : NULL;
        Settings stored = former ? *former : SETTINGS_NULL;

        *ret = *g;
        if (is_kept(g, flags)) {
                settings_merge(&stored, s);
                give_way_to_stored(ret, s);
        } else
                take_settings(message, ret, s);
        group_resolve_copy(ret, &stored);
}

static int preview_override(sd_bus_message *message, const Group *g, uint64_t flags, const Settings *s) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        Settings then;
        Group copy;

        group_would_be(message, g, flags, s, &copy);
        settings_from_resolved(&copy.resolved, &then);
        int r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = bus_append_settings(reply, &then);
        return r < 0 ? r : sd_bus_message_send(reply);
}

BUS_CHECK(check_set) {
        Group *g = userdata;
        uint64_t flags;
        Settings s;

        int r = bus_read_set(g->manager, message, SET_FLAG_PERSISTENT, &flags, &s, error);
        return r < 0 ? r : check_settings(message, g, flags, &s, error);
}

BUS_CHANGE(method_set, Group *g, g->manager) {
        uint64_t set_flags;
        Settings s;

        int r = bus_read_set(g->manager, message, SET_FLAG_PERSISTENT, &set_flags, &s, error);
        return r < 0 ? r : set_override(message, g, set_flags, &s, error);
}

static int method_preview(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const Group *g = userdata;
        uint64_t flags;
        Settings s;

        int r = bus_read_set(g->manager, message, SET_FLAG_PERSISTENT, &flags, &s, error);
        return r < 0 ? r : preview_override(message, g, flags, &s);
}

static AuthRequest reset_request(const Group *g) {
        return bus_reset_request(&g->lowering, g->lowering_uid, g->name);
}

/* Resets a group, or a name that only has stored settings. */
static int reset_override(sd_bus_message *message, Manager *m, Group *g, const char *name, sd_bus_error *error) {
        const AuthRequest request = g ? reset_request(g) : (AuthRequest){.action = AUTH_MANAGE};
        const Settings none = SETTINGS_NULL;
        bool own = auth_is_for_owner(m->auth, message, &request);
        const Settings *stored = name ? overrides_find(&m->overrides, name) : NULL, former = stored ? *stored : none;

        if (!own && stored) {
                int r = group_store(m, name, &none, error);
                if (r < 0)
                        return r;
        }
        if (g) {
                if (!own)
                        g->override = SETTINGS_NULL;
                g->lowering = SETTINGS_NULL;
                return group_apply(g, message, NULL, false);
        }
        return group_name_apply(m, name, message, NULL, &former);
}

BUS_CHECK(check_reset) {
        const Group *g = userdata;
        const AuthRequest request = reset_request(g);

        return bus_check_reset(g->manager, message, &request, error);
}

BUS_CHANGE(method_reset, Group *g, g->manager) {
        return reset_override(message, g->manager, g, group_stored_name(g), error);
}

BUS_CHECK(check_suspend) {
        const Group *g = userdata;
        return bus_check_suspend(g->manager, message, streq(member, "Suspend"), g->name, error);
}

BUS_CHANGE(method_suspend, Group *g, g->manager) {
        return group_suspend(message, g, true, error);
}

BUS_CHANGE(method_resume, Group *g, g->manager) {
        return group_suspend(message, g, false, error);
}

static const GateRule group_rules[] = {
                BUS_SETTABLE_RULES,
                {.method = method_preview},
                {},
};

/* --- of the manager --- */

static int no_such_group(const char *name, sd_bus_error *error) {
        return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%s'", name);
}

/* Sets a group that does not exist yet: stored by name, or with a group that waits for its first client. */
static int set_in_advance(sd_bus_message *message, Manager *m, const char *name, uint64_t flags, const Settings *s,
                sd_bus_error *error) {
        _cleanup_free_ char *key = NULL;
        Group *g;

        int r = overrides_name(name, &key);
        if (r < 0)
                return r;
        if (flags & SET_FLAG_PERSISTENT && group_is_storable(m, key)) {
                r = store_more(m, key, s, error);
                if (r < 0)
                        return r;
                return group_name_apply(m, key, message, s, NULL);
        }
        r = group_get(m, streq(name, "-.slice") ? "/" : name, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        bus_take_settings(m, s, false, &g->override, &g->lowering);
        return group_apply(g, message, s, false);
}

/* Reads a unit's name, and replaces an alias by the unit's own name: settings are kept under that one. */
static int read_name(sd_bus_message *message, char **ret) {
        const char *name;
        char *own = NULL;

        int r = sd_bus_message_read(message, "s", &name);
        if (r >= 0)
                r = unit_alias("", name, &own);
        if (r == 0)
                own = strdup(name);
        if (r < 0 || !own)
                return r < 0 ? r : -ENOMEM;
        *ret = own;
        return 0;
}

static int read_set_group(Manager *m, sd_bus_message *message, char **ret_name, uint64_t *ret_flags, Settings *ret,
                sd_bus_error *error) {
        _cleanup_free_ char *name = NULL;

        int r = read_name(message, &name);
        if (r >= 0)
                r = bus_read_set(m, message, SET_FLAG_PERSISTENT, ret_flags, ret, error);
        if (r < 0)
                return r;
        *ret_name = TAKE_PTR(name);
        return r;
}

int check_set_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        _cleanup_free_ char *name = NULL;
        uint64_t flags;
        Settings s;

        int r = read_set_group(m, message, &name, &flags, &s, error);
        if (r < 0)
                return r;
        Group *g = group_find(m, name);
        if (g)
                return check_settings(message, g, flags, &s, error);
        if (!overrides_name_is_valid(name))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                "'%s' is neither a cgroup's path nor the name of a service, scope or slice", name);
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "set", .target = name};
        return auth_check(m->auth, message, &request, error);
}

BUS_MANAGER_CHANGE(method_set_group) {
        _cleanup_free_ char *name = NULL;
        uint64_t flags;
        Settings s;

        int r = read_set_group(m, message, &name, &flags, &s, error);
        if (r < 0)
                return r;
        Group *g = group_find(m, name);
        if (g)
                return set_override(message, g, flags, &s, error);
        if (settings_is_empty(&s) && s.unset == 0)
                return sd_bus_reply_method_return(message, NULL);
        return set_in_advance(message, m, name, flags, &s, error);
}

/* Reads the group, or (NULL) the name that only has stored settings. */
static int read_reset_group(Manager *m, sd_bus_message *message, Group **ret, char **ret_key, sd_bus_error *error) {
        _cleanup_free_ char *key = NULL, *name = NULL;

        int r = read_name(message, &name);
        if (r < 0)
                return r;
        *ret = group_find(m, name);
        if (*ret)
                return 0;
        r = overrides_name(name, &key);
        if (r < 0)
                return r;
        if (!overrides_find(&m->overrides, key))
                return no_such_group(name, error);
        *ret_key = TAKE_PTR(key);
        return 0;
}

int check_reset_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_free_ char *key = NULL;
        Manager *m = userdata;
        Group *g;

        int r = read_reset_group(m, message, &g, &key, error);
        if (r < 0)
                return r;
        const AuthRequest request = g ? reset_request(g) : bus_reset_request(&(Settings){0}, UID_NONE, key);
        return bus_check_reset(m, message, &request, error);
}

BUS_MANAGER_CHANGE(method_reset_group) {
        _cleanup_free_ char *key = NULL;
        Group *g;

        int r = read_reset_group(m, message, &g, &key, error);
        return r < 0 ? r : reset_override(message, m, g, g ? group_stored_name(g) : key, error);
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
                // clang-format off
                SETTING_ROWS(BUS_SETTING_OF_GROUP, )
                // clang-format on
                SD_BUS_PROPERTY("PolicySource", "s", bus_get_source, offsetof(Group, resolved.source), BUS_CHANGES),
                SD_BUS_PROPERTY("Suspended", "b", get_suspended, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("SuspendedBy", "s", get_suspended_by, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("Waits", "a(sssttt)", get_waits, 0, 0),
                SD_BUS_PROPERTY("Frozen", "b", get_frozen, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("Parent", "s", get_parent, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("NClients", "u", NULL, offsetof(Group, n_clients), 0),
                SD_BUS_PROPERTY("RunUSec", "t", get_run, 0, 0),
                SD_BUS_PROPERTY("GPUTimeUSec", "t", get_gpu_time, 0, 0),
                SD_BUS_PROPERTY("KeptUSec", "t", get_kept, 0, 0),
                SD_BUS_PROPERTY("WaitUSec", "t", get_wait, 0, 0),
                SD_BUS_PROPERTY("GPUTimeSource", "s", get_gpu_time_source, 0, 0),
                SD_BUS_PROPERTY("DrainWaitUSec", "t", get_drain_wait, 0, 0),
                SD_BUS_PROPERTY("ServiceWaitUSec", "t", get_service_wait, 0, 0),
                SD_BUS_PROPERTY("NPreempted", "t", get_preempted, 0, 0),

                BUS_SETTABLE_METHODS,
                SD_BUS_METHOD_WITH_ARGS("Preview", SD_BUS_ARGS("t", flags, "a{sv}", settings),
                                SD_BUS_RESULT("a{sv}", effective), method_preview, BUS_ANY_USER),

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

const sd_bus_vtable *group_vtable_get(void) {
        return group_vtable;
}

int group_dbus_attach(Manager *m) {
        const GateInterface i = {
                        .path = GROUP_PREFIX,
                        .name = BUS_INTERFACE ".Group",
                        .vtable = group_vtable,
                        .rules = group_rules,
                        .find = group_object_find,
                        .userdata = m,
        };

        return gate_add(m->gate, &i);
}
