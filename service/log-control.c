/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * org.freedesktop.LogControl1
 */

#include "log-control.h"
#include "log.h"

static int get_level(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        return sd_bus_message_append(reply, "s", log_level_to_string(log_get_max_level()));
}

static int check_log(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "log", .target = member};
        return auth_check(userdata, message, &request, error);
}

static int set_level(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *value, void *userdata, sd_bus_error *error) {
        const char *s;

        int r = auth_take(userdata, value, error);
        if (r >= 0)
                r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        int level = log_level_from_string(s);
        if (level < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "Unknown log level \"%s\"", s);
        log_set_max_level(level);
        log_info("Log level is now %s", log_level_to_string(level));
        return 0;
}

static int get_target(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        return sd_bus_message_append(reply, "s", log_target_to_string(log_get_target()));
}

static int set_target(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *value, void *userdata, sd_bus_error *error) {
        const char *s;

        int r = auth_take(userdata, value, error);
        if (r >= 0)
                r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        int target = log_target_from_string(s);
        if (target < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "Unknown log target \"%s\"", s);
        log_set_target((LogTarget) target);
        log_info("Log target is now %s", log_target_to_string(log_get_target()));
        return 0;
}

static int get_identifier(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        return sd_bus_message_append(reply, "s", program_invocation_short_name);
}

static const sd_bus_vtable vtable[] = {
                SD_BUS_VTABLE_START(0),
                SD_BUS_WRITABLE_PROPERTY(
                                "LogLevel", "s", get_level, set_level, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_WRITABLE_PROPERTY(
                                "LogTarget", "s", get_target, set_target, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_PROPERTY("SyslogIdentifier", "s", get_identifier, 0, SD_BUS_VTABLE_PROPERTY_CONST),
                SD_BUS_VTABLE_END,
};

static const GateRule rules[] = {
                {.setter = set_level, .check = check_log},
                {.setter = set_target, .check = check_log},
                {},
};

int log_control_export(Gate *g, Auth *auth) {
        const GateInterface i = {
                        .path = "/org/freedesktop/LogControl1",
                        .name = "org.freedesktop.LogControl1",
                        .vtable = vtable,
                        .rules = rules,
                        .userdata = auth,
        };

        return gate_add(g, &i);
}
