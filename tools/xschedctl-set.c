/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * set, reset, suspend, resume, reload: what changes something
 *
 * What may be set is the service's to say; here stand only the types that the values travel in. All that is named in one
 * command goes to the service in one call, so that it takes effect as a whole or not at all.
 */

#include <inttypes.h>
#include <strings.h>

#include "common/bus-flags.h"
#include "common/parse-util.h"
#include "common/time-util.h"
#include "tools/xschedctl-bus.h"
#include "tools/xschedctl-set.h"
#include "tools/xschedctl-target.h"

typedef struct Setting {
        const char *key; /* as typed; case does not matter */
        const char *name;
        char type;      /* of the bus; '%': a percentage, u on the bus */
        bool is_span;   /* "5ms", in microseconds on the bus */
        bool of_device; /* a parameter of a policy; else of whoever is scheduled */
} Setting;

static const Setting settings[] = {
                {"class", "Class", 's', false, false},
                {"priority", "Priority", 'i', false, false},
                {"weight", "Weight", 'u', false, false},
                {"threshold", "Threshold", 'u', false, false},
                {"preemption", "Preemption", 's', false, false},
                {"gang", "Gang", 'b', false, false},
                {"max", "Max", '%', false, false},
                {"min", "Min", '%', false, false},
                {"period", "Period", 't', true, false},
                {"concurrency", "Concurrency", 'u', false, true},
                {"timeslice", "TimeSliceUSec", 't', true, true},
                {"threshold", "Threshold", 'u', false, true},
                {"preemption", "Preemption", 's', false, true},
                {"linger", "LingerUSec", 't', true, true},
                {"starve", "StarveUSec", 't', true, true},
                {"starverun", "StarveRunUSec", 't', true, true},
};

/* Also by the bus's own name: TimeSliceUSec=5ms. */
static const Setting *find_setting(bool of_device, const char *key, size_t n) {
        for (size_t i = 0; i < ELEMENTSOF(settings); i++) {
                const Setting *s = settings + i;

                if (s->of_device == of_device &&
                                ((strlen(s->key) == n && strncasecmp(s->key, key, n) == 0) ||
                                                (strlen(s->name) == n && strncasecmp(s->name, key, n) == 0)))
                        return s;
        }
        return NULL;
}

static int append_value(sd_bus_message *m, const Setting *s, const char *value) {
        uint64_t u;
        int64_t i;
        int r;

        switch (s->type) {
        case 's':
                return sd_bus_message_append(m, "{sv}", s->name, "s", value);
        case 'b':
                r = parse_bool(value);
                return r < 0 ? r : sd_bus_message_append(m, "{sv}", s->name, "b", r);
        case 'i':
                r = parse_int64(value, INT32_MIN, INT32_MAX, &i);
                return r < 0 ? r : sd_bus_message_append(m, "{sv}", s->name, "i", (int32_t) i);
        case '%':
                r = parse_percent(value, &u);
                return r < 0 ? r : sd_bus_message_append(m, "{sv}", s->name, "u", (uint32_t) u);
        case 'u':
                r = parse_uint64(value, 0, UINT32_MAX, &u);
                return r < 0 ? r : sd_bus_message_append(m, "{sv}", s->name, "u", (uint32_t) u);
        default:
                r = s->is_span ? parse_nsec(value, &u) : parse_uint64(value, 0, UINT64_MAX, &u);
                if (r >= 0 && s->is_span && u != NSEC_INFINITY)
                        u /= NSEC_PER_USEC;
                return r < 0 ? r : sd_bus_message_append(m, "{sv}", s->name, "t", u);
        }
}

int settings_append(sd_bus_message *m, ObjectKind kind, const char *assignment) {
        const char *equals = strchr(assignment, '=');
        const Setting *s;
        int r;

        if (!equals || equals == assignment)
                return ctl_fail("%s: not KEY=VALUE", assignment);
        s = find_setting(kind == OBJECT_DEVICE, assignment, (size_t) (equals - assignment));
        if (!s)
                return ctl_fail("%.*s: no such setting of a %s", (int) (equals - assignment), assignment,
                                object_kind_to_string(kind));
        r = append_value(m, s, equals + 1);
        if (r == -EINVAL)
                return ctl_fail("%s: not a %s", assignment,
                                s->is_span                       ? "time span, like 5ms"
                                                : s->type == 'b' ? "boolean, yes or no"
                                                : s->type == '%' ? "percentage, like 25%, or infinity"
                                                                 : "number");
        if (r == -ERANGE)
                return ctl_fail("%s: out of range", assignment);
        if (r < 0)
                return ctl_fail("%s: %s", assignment, strerror(-r));
        return 0;
}

/* policy=NAME is an argument of SetPolicy itself; none, "", leaves the policy as it is. */
static const char *named_policy(const char *assignment) {
        return strncasecmp(assignment, "policy=", strlen("policy=")) == 0 ? strchr(assignment, '=') + 1
                                                                          : NULL;
}

static int new_device_call(Ctl *c, const Target *t, int argc, char *argv[], sd_bus_message **ret) {
        const char *policy = "";
        int r;

        for (int i = 0; i < argc; i++)
                policy = named_policy(argv[i]) ?: policy;
        r = ctl_new_call(c, NULL, NULL, "SetPolicy", ret);
        if (r >= 0)
                r = sd_bus_message_append(*ret, "sst", t->name, policy, UINT64_C(0));
        return r < 0 ? ctl_fail("%s: %s", t->text, strerror(-r)) : 0;
}

static int new_set_call(Ctl *c, const Target *t, sd_bus_message **ret) {
        int r;

        if (t->kind == OBJECT_GROUP) {
                r = ctl_new_call(c, NULL, NULL, "SetGroup", ret);
                if (r >= 0)
                        r = sd_bus_message_append(
                                        *ret, "st", t->name, c->runtime ? UINT64_C(0) : SET_FLAG_PERSISTENT);
        } else {
                r = ctl_new_call(c, t->path, object_kind_interface(t->kind), "Set", ret);
                if (r >= 0)
                        r = sd_bus_message_append(*ret, "t", UINT64_C(0));
        }
        return r < 0 ? ctl_fail("%s: %s", t->text, strerror(-r)) : 0;
}

int verb_set(Ctl *c, int argc, char *argv[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;
        _cleanup_(target_done)
        Target t = {};
        int r;

        r = target_resolve(c, argv[0], true, &t);
        if (r == 0)
                r = t.kind == OBJECT_DEVICE ? new_device_call(c, &t, argc - 1, argv + 1, &m)
                                            : new_set_call(c, &t, &m);
        if (r != 0)
                return r;
        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return ctl_fail("%s: %s", t.text, strerror(-r));
        for (int i = 1; i < argc; i++) {
                if (t.kind == OBJECT_DEVICE && named_policy(argv[i]))
                        continue;
                r = settings_append(m, t.kind, argv[i]);
                if (r != 0)
                        return r;
        }
        r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = ctl_call(c, m, &error, NULL);
        return r < 0 ? ctl_call_failed(c, &error, r, t.text) : 0;
}

typedef int (*target_call_t)(Ctl *c, const Target *t, const char *method, sd_bus_error *e);

/* The targets in the order in which they were named, up to the first that fails. An exit status. */
static int for_each_target(Ctl *c, int argc, char *argv[], bool may_be_new, const char *no_device,
                target_call_t call, const char *method) {
        for (int i = 0; i < argc; i++) {
                _cleanup_(sd_bus_error_free)
                sd_bus_error error = SD_BUS_ERROR_NULL;
                _cleanup_(target_done)
                Target t = {};
                int r;

                r = target_resolve(c, argv[i], may_be_new, &t);
                if (r != 0)
                        return r;
                if (t.kind == OBJECT_DEVICE)
                        return ctl_fail("%s: %s", t.text, no_device);
                r = call(c, &t, method, &error);
                if (r < 0)
                        return ctl_call_failed(c, &error, r, t.text);
        }
        return 0;
}

static int call_reset(Ctl *c, const Target *t, const char *method, sd_bus_error *e) {
        if (t->kind == OBJECT_GROUP)
                return ctl_call_method(c, NULL, NULL, "ResetGroup", e, NULL, "st", t->name, UINT64_C(0));
        return ctl_call_method(
                        c, t->path, object_kind_interface(t->kind), method, e, NULL, "t", UINT64_C(0));
}

static int call_plain(Ctl *c, const Target *t, const char *method, sd_bus_error *e) {
        return ctl_call_method(c, t->path, object_kind_interface(t->kind), method, e, NULL, NULL);
}

int verb_reset(Ctl *c, int argc, char *argv[]) {
        return for_each_target(c, argc, argv, true, "a device has no settings of its own to go back from",
                        call_reset, "Reset");
}

static int suspend_or_resume(Ctl *c, const char *method, int argc, char *argv[]) {
        return for_each_target(c, argc, argv, false, "only groups, clients and queues can be suspended",
                        call_plain, method);
}

int verb_suspend(Ctl *c, int argc, char *argv[]) {
        return suspend_or_resume(c, "Suspend", argc, argv);
}

int verb_resume(Ctl *c, int argc, char *argv[]) {
        return suspend_or_resume(c, "Resume", argc, argv);
}

int verb_reload(Ctl *c, int argc, char *argv[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        int r;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        r = ctl_call_method(c, NULL, NULL, "Reload", &error, NULL, NULL);
        return r < 0 ? ctl_call_failed(c, &error, r, NULL) : 0;
}
