/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Suspending groups, by their objects and by name
 */

#include "suspend-dbus.h"
#include "audit.h"
#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-path.h"
#include "manager-dbus.h"
#include "service/core/observer.h"
#include "service/core/suspended.h"
#include "service/core/suspension.h"

int bus_check_resumed(const Group *by, sd_bus_error *error) {
        if (!by)
                return 0;
        return sd_bus_error_setf(error, BUS_ERROR("SuspendedAbove"),
                        "It is suspended with %s, and goes on when that is resumed", by->name);
}

int group_suspend(sd_bus_message *message, Group *g, bool suspended, sd_bus_error *error) {
        Manager *m = g->manager;

        if (suspended && g->kind == GROUP_CGROUP && g->name[0] != '/')
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"),
                                "%s does not run, there is nothing to suspend", g->name);
        if (!suspended && !g->suspended) {
                int r = bus_check_resumed(group_suspended_by(g), error);
                if (r < 0)
                        return r;
        }
        const AuditObject o = {.fields = {.group = g->name}, .name = g->name};
        group_set_suspended(g, suspended);
        audit_suspended(m, message, &o, suspended);
        observers_group_changed(g, GROUP_KEPT);
        group_gc(g);
        return bus_answer(m, message, NULL);
}

/* Finds the cgroup for a name that has no group. A slice's cgroup follows from its name. */
static int find_cgroup(const char *name, char **ret, sd_bus_error *error) {
        _cleanup_free_ char *path = NULL;
        uint64_t id;

        int r = name[0] == '/' ? 0 : cgroup_path_of_slice(name, &path);
        if (r >= 0 && !path) {
                path = strdup(name);
                r = path ? 0 : -ENOMEM;
        }
        if (r >= 0)
                r = cgroup_id(path, &id);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"),
                                "There is no group '%s', and no slice or cgroup either", name);
        *ret = TAKE_PTR(path);
        return 0;
}

static int suspend_cgroup(sd_bus_message *message, Manager *m, const char *name, sd_bus_error *error) {
        _cleanup_free_ char *cgroup = NULL;
        Group *g;

        int r = find_cgroup(name, &cgroup, error);
        if (r >= 0)
                r = group_get(m, cgroup, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        const AuditObject o = {.fields = {.group = g->name}, .name = g->name};
        group_set_suspended(g, true);
        audit_suspended(m, message, &o, true);
        observers_group_changed(g, GROUP_KEPT);
        return bus_answer(m, message, NULL);
}

static Group *find_group(Manager *m, const char *name) {
        Group *g = group_find(m, name);

        /* A group named after a unit was made for settings in advance, and has no cgroup that could be suspended. */
        return g && g->kind == GROUP_CGROUP && g->name[0] != '/' ? NULL : g;
}

static int read_name(sd_bus_message *message, const char **ret, sd_bus_error *error) {
        int r = sd_bus_message_read(message, "s", ret);
        return r < 0 ? r : bus_read_flags(message, error);
}

int check_suspend_group(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        Manager *m = userdata;
        const char *name;

        int r = read_name(message, &name, error);
        if (r < 0)
                return r;
        const Group *g = find_group(m, name);
        return bus_check_suspend(m, message, streq(member, "SuspendGroup"), g ? g->name : name, error);
}

BUS_MANAGER_CHANGE(method_suspend_group) {
        const char *name;

        int r = read_name(message, &name, error);
        if (r < 0)
                return r;
        Group *g = find_group(m, name);
        return g ? group_suspend(message, g, true, error) : suspend_cgroup(message, m, name, error);
}

BUS_MANAGER_CHANGE(method_resume_group) {
        _cleanup_free_ char *cgroup = NULL;
        const char *name;

        int r = read_name(message, &name, error);
        if (r < 0)
                return r;
        Group *g = find_group(m, name);
        if (g)
                return group_suspend(message, g, false, error);
        /* A cgroup without a group has no suspension to end. */
        r = find_cgroup(name, &cgroup, error);
        return r < 0 ? r : sd_bus_reply_method_return(message, NULL);
}
