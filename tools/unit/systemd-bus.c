/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * systemd on the bus
 */

#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "common/array.h"
#include "common/time-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/unit/systemd-bus.h"

#define APPEAR_NSEC (5 * NSEC_PER_SEC)

/* The wait ends with any answer: the bus is asked again. */
static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return 0;
}

/* A user's bus starts with its first connection, and the manager connects to it a moment later. */
static bool wait_for_manager(sd_bus *bus) {
        uint64_t until = now_ns() + APPEAR_NSEC;
        const char *dir = getenv("XDG_RUNTIME_DIR");
        _cleanup_free_ char *private = NULL;

        if (!dir || asprintf(&private, "%s/systemd/private", dir) < 0) {
                private = NULL;
                return false;
        }
        if (access(private, F_OK) < 0)
                return false;
        int r = sd_bus_add_match(bus, NULL,
                        "type='signal',sender='" DRIVER_NAME "',member='NameOwnerChanged',arg0='" SYSTEMD_NAME "'",
                        on_owner_changed, NULL);
        while (r >= 0 && !bus_has_owner(bus, SYSTEMD_NAME)) {
                uint64_t now = now_ns();

                if (now >= until)
                        return false;
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, (until - now) / NSEC_PER_USEC + 1);
        }
        return r >= 0;
}

int systemd_open(const Ctl *c, bool user, sd_bus **ret) {
        _cleanup_(sd_bus_close_unrefp)
        sd_bus *bus = NULL;
        int r;

        bool here = !c->host && !c->machine;

        if (!user && here && sd_booted() <= 0)
                return -EOPNOTSUPP;
        r = ctl_open_standard_bus(c, user, &bus);
        if (r < 0)
                return r;
        if (!bus_has_owner(bus, SYSTEMD_NAME) && !(user && here && wait_for_manager(bus)))
                return -EOPNOTSUPP;
        *ret = TAKE_PTR(bus);
        return 0;
}

int systemd_failed(const char *unit, const sd_bus_error *e, int r) {
        if (sd_bus_error_has_name(e, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED) ||
                        sd_bus_error_has_name(e, SD_BUS_ERROR_ACCESS_DENIED))
                return ctl_fail("%s: access denied: %s", unit, strempty(e->message));
        return ctl_fail("%s: %s", unit, e && e->message ? e->message : strerror(-r));
}

int systemd_open_property(sd_bus_message *m, const char *name, const char *type) {
        int r = sd_bus_message_open_container(m, 'r', "sv");

        if (r >= 0)
                r = sd_bus_message_append_basic(m, 's', name);
        return r < 0 ? r : sd_bus_message_open_container(m, 'v', type);
}

int systemd_close_property(sd_bus_message *m) {
        int r = sd_bus_message_close_container(m);

        return r < 0 ? r : sd_bus_message_close_container(m);
}

int systemd_append_bytes(sd_bus_message *m, const char *name, const char *value) {
        int r = systemd_open_property(m, name, "aay");

        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "ay");
        if (r >= 0)
                r = sd_bus_message_append_array(m, 'y', value, strlen(value));
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : systemd_close_property(m);
}

int systemd_unit_cgroup(sd_bus *bus, const char *unit, sd_bus_error *e, char **ret) {
        static const struct {
                const char *suffix, *interface;
        } kinds[] = {
                        {".service", SYSTEMD_SERVICE},
                        {".scope", SYSTEMD_NAME ".Scope"},
                        {".slice", SYSTEMD_NAME ".Slice"},
        };
        _cleanup_free_ char *path = NULL;

        int r = sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                size_t n = strlen(unit), k = strlen(kinds[i].suffix);

                if (n > k && streq(unit + n - k, kinds[i].suffix))
                        return sd_bus_get_property_string(
                                        bus, SYSTEMD_NAME, path, kinds[i].interface, "ControlGroup", e, ret);
        }
        return -EINVAL;
}

static int unit_get_string(sd_bus *bus, const char *path, const char *property, sd_bus_error *e, char **ret) {
        return sd_bus_get_property_string(bus, SYSTEMD_NAME, path, SYSTEMD_UNIT, property, e, ret);
}

int systemd_unit_id(sd_bus *bus, const char *unit, sd_bus_error *e, char **ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_free_ char *state = NULL, *id = NULL;
        const char *path;

        int r = sd_bus_call_method(bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "LoadUnit", e, &reply, "s", unit);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &path);
        if (r >= 0)
                r = unit_get_string(bus, path, "LoadState", e, &state);
        if (r >= 0)
                r = unit_get_string(bus, path, "Id", e, &id);
        if (r < 0)
                return r;
        if (streq(state, "not-found"))
                return -ENOENT;
        *ret = TAKE_PTR(id);
        return 0;
}

int systemd_unit_processes(sd_bus *bus, const char *unit, sd_bus_error *e, uint32_t **ret, size_t *ret_n) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_free_ uint32_t *pids = NULL;
        const char *cgroup, *command;
        uint32_t pid;
        size_t n = 0;

        int r = sd_bus_call_method(
                        bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "GetUnitProcesses", e, &reply, "s", unit);
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'a', "(sus)");
        while (r >= 0 && (r = sd_bus_message_read(reply, "(sus)", &cgroup, &pid, &command)) > 0) {
                uint32_t *more = array_grow(pids, n, sizeof(*pids));
                if (!more)
                        return -ENOMEM;
                pids = more;
                pids[n++] = pid;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(pids);
        *ret_n = n;
        return 0;
}
