/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the object that a person names
 *
 * Of a pid the start time is read here, at once: should the process end meanwhile, the service finds no client, instead
 * of the next process that got the same number.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/unit/systemd-bus.h"
#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl-waits.h"

void target_done(Target *t) {
        free(t->path);
        free(t->resolved);
        *t = (Target){};
}

bool target_is_pid(const char *text) {
        return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

int target_read_pid(const char *text, ProcessId *ret) {
        uint64_t pid;

        if (parse_uint64(text, 1, INT32_MAX, &pid) < 0)
                return ctl_fail("%s: not a process id", text);
        *ret = (ProcessId){.pid = (pid_t) pid};
        if (process_id_of((pid_t) pid, ret) < 0 && kill((pid_t) pid, 0) < 0 && errno == ESRCH)
                return ctl_fail("%s: no such process", text);
        return 0;
}

/* Sends one of the manager's Get... calls, which find an object by something else than its path. */
static int get_object(Ctl *c, sd_bus_message *m, sd_bus_error *e, char **ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        const char *path;
        int r;

        r = ctl_call(c, m, e, &reply);
        if (r >= 0)
                r = sd_bus_message_read_basic(reply, 'o', &path);
        if (r < 0)
                return r;
        *ret = strdup(path);
        return *ret ? 0 : -ENOMEM;
}

int target_get_client(Ctl *c, const ProcessId *p, sd_bus_error *e, char **ret_path) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;
        int r;

        r = ctl_new_call(c, NULL, NULL, "GetClientByProcess", &m);
        if (r >= 0)
                r = sd_bus_message_append(m, "ut", (uint32_t) p->pid, p->start_time);
        return r < 0 ? r : get_object(c, m, e, ret_path);
}

int target_client_failed(const Ctl *c, const sd_bus_error *e, int r, const char *what, const char *pid) {
        _cleanup_free_ char *why =
                        pid && sd_bus_error_has_name(e, BUS_ERROR("NoSuchClient")) ? why_unregistered(pid) : NULL;

        return why ? ctl_fail("%s: no such client: %s", what, why) : ctl_call_failed(c, e, r, what);
}

static int resolve_pid(Ctl *c, Target *t) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *what = NULL;
        ProcessId p = {};
        int r;

        t->kind = OBJECT_CLIENT;
        /* Processes of another machine cannot be looked at from here. */
        if (c->host || c->machine) {
                uint64_t pid;

                if (parse_uint64(t->text, 1, INT32_MAX, &pid) < 0)
                        return ctl_fail("%s: not a process id", t->text);
                p.pid = (pid_t) pid;
        } else {
                r = target_read_pid(t->text, &p);
                if (r != 0)
                        return r;
        }
        r = target_get_client(c, &p, &error, &t->path);
        if (r >= 0)
                return 0;
        if (asprintf(&what, "process %s", t->text) < 0)
                return ctl_fail("out of memory");
        return target_client_failed(c, &error, r, what, c->host || c->machine ? NULL : t->text);
}

static int resolve_number(Target *t, const char *number) {
        uint64_t id;

        const char *kind = object_kind_to_string(t->kind);
        int r = parse_uint64(number, 0, UINT64_MAX, &id);
        if (r == -ERANGE)
                return ctl_fail("%s: no such %s", t->text, kind);
        if (r < 0)
                return isempty(number) ? ctl_fail("%s names no %s", t->text, kind)
                                       : ctl_fail("%s: not a number", t->text);
        if (id == 0)
                return ctl_fail("%s: the number of the first %s is 1", t->text, kind);
        if (asprintf(&t->path, BUS_PATH "/%s/%" PRIu64, object_kind_to_string(t->kind), id) < 0)
                return ctl_fail("out of memory");
        return 0;
}

static int resolve_device(Target *t) {
        t->kind = OBJECT_DEVICE;
        if (isempty(t->name))
                return ctl_fail("%s names no device; all of them are device:all", t->text);
        if (streq(t->name, "all")) {
                t->name = "";
                return 0;
        }
        if (sd_bus_path_encode(BUS_PATH "/device", t->name, &t->path) < 0)
                return ctl_fail("%s: not a device", t->text);
        return 0;
}

/* Completes "train" to train.service, as systemctl does. */
static int complete_unit(Target *t) {
        if (strpbrk(t->name, "/.:"))
                return 0;
        if (asprintf(&t->resolved, "%s.service", t->name) < 0) {
                t->resolved = NULL;
                return ctl_fail("out of memory");
        }
        t->name = t->resolved;
        return 0;
}

/* The scheduler knows a user's units by their cgroups only: another user may have one of the same name. */
static int resolve_user_unit(const Ctl *c, Target *t) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *bus = NULL;
        _cleanup_free_ char *cgroup = NULL;
        int r;

        r = systemd_open(c, true, &bus);
        if (r < 0)
                return ctl_fail("%s: the user has no systemd: %s", t->text, strerror(-r));
        r = systemd_unit_cgroup(bus, t->name, &error, &cgroup);
        if (r < 0)
                return systemd_failed(t->text, &error, r);
        if (isempty(cgroup))
                return ctl_fail("%s: is not running", t->text);
        free(t->resolved);
        t->resolved = TAKE_PTR(cgroup);
        t->name = t->resolved;
        return 0;
}

/* Calls GetGroup. Returns an exit status; 0 also when there is no such group: then t->path is NULL, and *error says
 * so. */
static int find_group(Ctl *c, Target *t, sd_bus_error *error) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = ctl_new_call(c, NULL, NULL, "GetGroup", &m);
        if (r >= 0)
                r = sd_bus_message_append_basic(m, 's', t->name);
        if (r >= 0)
                r = get_object(c, m, error, &t->path);
        if (r >= 0 || sd_bus_error_has_name(error, BUS_ERROR("NoSuchGroup")))
                return 0;
        return ctl_call_failed(c, error, r, t->text);
}

/* Asks systemd for the unit's own name, by which the scheduler knows it. Without systemd the name stays. */
static int resolve_unit(Ctl *c, Target *t, TargetFlags flags) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *id = NULL;

        if (ctl_bus_address(c) || !bus_has_owner(c->bus, SYSTEMD_NAME))
                return 0;
        int r = systemd_unit_id(c->bus, t->name, &error, &id);
        if (r == -ENOENT && (flags & TARGET_MAY_BE_GONE || !(flags & TARGET_MAY_BE_NEW)))
                return 0;
        if (r == -ENOENT)
                return ctl_fail("%s: there is no unit %s; --force sets it nevertheless", t->text, t->name);
        if (r < 0)
                return systemd_failed(t->text, &error, r);
        free(t->resolved);
        t->resolved = TAKE_PTR(id);
        t->name = t->resolved;
        return 0;
}

/* Returns the system's unit of a path with nothing but slices above it; NULL for any other path. */
static const char *unit_of_path(const char *path) {
        static const char *const suffixes[] = {".service", ".scope", ".slice"};
        const char *name = path;

        for (const char *slash = path; slash; slash = strchr(name, '/')) {
                if (slash != path && !(slash - name > 6 && strncmp(slash - 6, ".slice", 6) == 0))
                        return NULL;
                name = slash + 1;
        }
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (endswith(name, suffixes[i]))
                        return name;
        return NULL;
}

/* Settings are kept by name, so a mistyped path would name a unit that does not exist: check it. */
static int check_path(Ctl *c, const Target *t, TargetFlags flags) {
        _cleanup_(target_done)
        Target unit = {.text = t->text, .name = t->name[0] == '/' ? unit_of_path(t->name) : NULL};

        return unit.name ? resolve_unit(c, &unit, flags) : 0;
}

/* Returns the reason that the first process of the unit with one gives. NULL: none. */
static char *why_unit_unregistered(sd_bus *bus, const char *unit) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_free_ uint32_t *pids = NULL;
        size_t n = 0;

        if (systemd_unit_processes(bus, unit, &error, &pids, &n) < 0)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *why = NULL;
                char pid[16], *text;

                (void) snprintf(pid, sizeof(pid), "%" PRIu32, pids[i]);
                why = why_unregistered(pid);
                if (why)
                        return asprintf(&text, "process %s: %s", pid, why) < 0 ? NULL : text;
        }
        return NULL;
}

/* Returns "process PID: " and the reason of the unit's first unregistered process that gives one. NULL: none. Processes
 * of another machine cannot be looked at, and a slice with clients may have thousands. */
static char *target_unregistered(Ctl *c, const Target *t, bool has_clients) {
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *bus = NULL;
        const char *unit = t->name;

        if (c->host || c->machine || systemd_open(c, c->user_bus, &bus) < 0)
                return NULL;
        if (unit[0] == '/')
                unit = c->user_bus ? strrchr(unit, '/') + 1 : unit_of_path(unit);
        return unit && !(has_clients && endswith(unit, ".slice")) ? why_unit_unregistered(bus, unit) : NULL;
}

int target_add_unregistered(Ctl *c, const Target *t, Object *group) {
        _cleanup_free_ char *why = target_unregistered(c, t, object_get_uint(group, "NClients") > 0);
        int r = why ? value_append(&group->properties, value_string("Unregistered")) : 0;

        return why && r >= 0 ? value_append(&group->properties, value_string(why)) : r;
}

int target_group_failed(Ctl *c, const Target *t, const sd_bus_error *e) {
        _cleanup_free_ char *why = target_unregistered(c, t, false);

        if (why)
                return ctl_fail("%s: no such group: nothing that is scheduled runs there: %s", t->text, why);
        if (e)
                return ctl_call_failed(c, e, sd_bus_error_get_errno(e), t->text);
        return ctl_fail("%s: no such group: nothing that is scheduled runs there, and it has no settings", t->text);
}

static int resolve_group(Ctl *c, Target *t, TargetFlags flags) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        bool is_unit;
        int r;

        t->kind = OBJECT_GROUP;
        r = complete_unit(t);
        is_unit = !strpbrk(t->name, "/:");
        if (r == 0 && c->user_bus && is_unit)
                r = resolve_user_unit(c, t);
        if (r == 0)
                r = find_group(c, t, &error);
        if (r == 0 && !t->path && is_unit && !c->user_bus) {
                r = resolve_unit(c, t, flags);
                if (r == 0 && t->name == t->resolved) {
                        sd_bus_error_free(&error);
                        r = find_group(c, t, &error);
                }
        }
        if (r != 0 || t->path)
                return r;
        if (flags & TARGET_MAY_BE_NEW)
                return check_path(c, t, flags);
        return target_group_failed(c, t, &error);
}

int target_resolve(Ctl *c, const char *text, TargetFlags flags, Target *ret) {
        _cleanup_(target_done)
        Target t = {.text = text, .name = text};
        const char *rest;
        int r;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        if (target_is_pid(text))
                r = resolve_pid(c, &t);
        else if ((rest = startswith(text, "client:"))) {
                t.kind = OBJECT_CLIENT;
                r = resolve_number(&t, rest);
        } else if ((rest = startswith(text, "queue:"))) {
                t.kind = OBJECT_QUEUE;
                r = resolve_number(&t, rest);
        } else if ((t.name = startswith(text, "device:")))
                r = resolve_device(&t);
        else {
                t.name = startswith(text, "group:") ?: text;
                r = isempty(t.name) ? ctl_fail("the name of the %s is empty", isempty(text) ? "target" : "group")
                                    : resolve_group(c, &t, flags);
        }
        if (r != 0)
                return r;
        *ret = TAKE_GENERIC(t, (Target){});
        return 0;
}
