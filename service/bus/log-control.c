/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * org.freedesktop.LogControl1
 */

#include "log-control.h"
#include "audit.h"
#include "bus-util.h"
#include "service/base/messages.h"

#define INTERFACE "org.freedesktop.LogControl1"
#define OBJECT    "/org/freedesktop/LogControl1"

BUS_GETTER(get_level) {
        return sd_bus_message_append(reply, "s", log_level_to_string(log_get_max_level()));
}

BUS_GETTER(get_target) {
        return sd_bus_message_append(reply, "s", log_target_to_string(log_get_target()));
}

BUS_GETTER(get_identifier) {
        return sd_bus_message_append(reply, "s", program_invocation_short_name);
}

BUS_CHECK(check_log) {
        const AuthRequest request = {.action = AUTH_MANAGE, .verb = "log", .target = member};
        Manager *m = userdata;
        return auth_check(m->auth, message, &request, error);
}

static void say(Manager *m, sd_bus_message *message, const char *what, const char *key, const char *old,
                const char *new) {
        const AuditObject o = {.fields = {.key = key, .old = old, .new = new}, .name = "the log"};
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char text[64];

        audit_begin(m, message, &a);
        (void) snprintf(text, sizeof(text), "%s is now %s", what, new);
        audit_event(&a, MESSAGE_SETTINGS_CHANGED, &o, text);
}

BUS_SETTER(set_level, Manager *m, m) {
        const char *s, *old = log_level_to_string(log_get_max_level());

        int r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        int level = log_level_from_string(s);
        if (level < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "Unknown log level \"%s\"", s);
        log_set_max_level(level);
        say(m, value, "Log level", property, old, log_level_to_string(level));
        return 0;
}

BUS_SETTER(set_target, Manager *m, m) {
        const char *s, *old = log_target_to_string(log_get_target());

        int r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        int target = log_target_from_string(s);
        if (target < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "Unknown log target \"%s\"", s);
        log_set_target((LogTarget) target);
        say(m, value, "Log target", property, old, log_target_to_string(log_get_target()));
        return 0;
}

static const sd_bus_vtable vtable[] = {
                SD_BUS_VTABLE_START(0),
                SD_BUS_WRITABLE_PROPERTY("LogLevel", "s", get_level, set_level, 0, BUS_ANY_USER),
                SD_BUS_WRITABLE_PROPERTY("LogTarget", "s", get_target, set_target, 0, BUS_ANY_USER),
                SD_BUS_PROPERTY("SyslogIdentifier", "s", get_identifier, 0, BUS_CONST),
                SD_BUS_VTABLE_END,
};

static const GateRule rules[] = {
                {.setter = set_level, .check = check_log},
                {.setter = set_target, .check = check_log},
                {},
};

int log_control_export(Manager *m) {
        const GateInterface i = {.path = OBJECT, .name = INTERFACE, .vtable = vtable, .rules = rules, .userdata = m};

        return gate_add(m->gate, &i);
}
