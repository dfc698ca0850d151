/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Recordings on the bus
 */

#include <stdio.h>

#include "audit.h"
#include "manager-dbus.h"
#include "service/base/messages.h"
#include "service/core/taping.h"
#include "taping-dbus.h"

static void strv_freep(char ***v) {
        for (char **p = *v; p && *p; p++)
                free(*p);
        free(*v);
}

static int read_arguments(Manager *m, sd_bus_message *message, char ***ret, sd_bus_error *error) {
        _cleanup_(strv_freep)
        char **devices = NULL;

        int r = sd_bus_message_read_strv(message, &devices);
        if (r >= 0)
                r = bus_read_flags(message, error);
        if (r < 0)
                return r;
        for (char **id = devices; id && *id; id++)
                if (!device_find(m, *id))
                        return sd_bus_error_setf(error, BUS_ERROR("NoSuchDevice"), "There is no device '%s'", *id);
        *ret = TAKE_PTR(devices);
        return 0;
}

int check_start_recording(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_(strv_freep)
        char **devices = NULL;
        Manager *m = userdata;

        int r = read_arguments(m, message, &devices, error);
        if (r < 0)
                return r;
        const AuthRequest request = {
                        .action = AUTH_MANAGE,
                        .verb = "record",
                        .target = devices && devices[0] && !devices[1] ? devices[0] : "",
        };
        return auth_check(m->auth, message, &request, error);
}

static void audit_start(Manager *m, sd_bus_message *message, char *const *devices) {
        const char *only = devices && devices[0] && !devices[1] ? devices[0] : NULL;
        const AuditObject o = {
                        .fields = {.device = only ?: "*"},
                        .name = only ?: (devices && devices[0] ? "several devices" : "every device"),
        };
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char what[256];

        audit_begin(m, message, &a);
        (void) snprintf(what, sizeof(what), "A recording of %s began", o.name);
        audit_event(&a, MESSAGE_SETTINGS_CHANGED, &o, what);
}

BUS_MANAGER_CHANGE(method_start_recording) {
        _cleanup_(strv_freep)
        char **devices = NULL;
        _cleanup_close_ int fd = -EBADF;

        int r = read_arguments(m, message, &devices, error);
        if (r < 0)
                return r;
        r = taping_begin(m, devices, &fd);
        if (r == -EBUSY)
                return sd_bus_error_set(
                                error, BUS_ERROR("AlreadyRecording"), "There is a recording already: one at a time");
        if (r < 0)
                return r;
        audit_start(m, message, devices);
        return bus_answer(m, message, "h", fd);
}
