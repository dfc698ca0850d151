/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * set, reset, suspend, resume, reload: the verbs that change something
 *
 * The service says which values are valid; here are only their types on the bus. All settings of one target go to the
 * service in one call, so that they take effect together or not at all.
 */

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "common/bus-names.h"
#include "common/parse-util.h"
#include "common/setting-rows.h"
#include "common/time-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/unit/systemd-bus.h"
#include "tools/xschedctl/xschedctl-set.h"
#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl.h"

typedef struct Setting {
        const char *key; /* as typed; case does not matter */
        const char *name;
        char type;      /* the type on the bus; '%': a percentage, '/': or no limit, both u on the bus */
        bool is_span;   /* "5ms", in microseconds on the bus */
        bool of_device; /* a parameter of a policy; otherwise a setting of groups, clients and queues */
} Setting;

#define TYPE_INT        'i'
#define TYPE_UINT       'u'
#define TYPE_PERCENT    '%'
#define TYPE_LIMIT      '/'
#define TYPE_USEC       't'
#define TYPE_BOOL       'b'
#define TYPE_PREEMPTION 's'
#define TYPE_ACCOUNTING 's'
#define TYPE_CLASS      's'
#define OF_WHO_IS_SCHEDULED(arg, KEY, Name, name, field, TYPE, ...)                                                    \
        {#name, #Name, TYPE_##TYPE, TYPE_##TYPE == TYPE_USEC, false},

static const Setting settings[] = {
                // clang-format off
                SETTING_ROWS(OF_WHO_IS_SCHEDULED, )
                // clang-format on
                {"concurrency", "Concurrency", 'u', false, true},
                {"timeslice", "TimeSliceUSec", 't', true, true},
                {"threshold", "Threshold", 'u', false, true},
                {"preemption", "Preemption", 's', false, true},
                {"accounting", "Accounting", 's', false, true},
                {"linger", "LingerUSec", 't', true, true},
                {"starve", "StarveUSec", 't', true, true},
                {"starverun", "StarveRunUSec", 't', true, true},
};

/* Finds a setting by its key, or by the bus's name: TimeSliceUSec=5ms. */
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

static bool is_unset(const char *assignment) {
        const char *equals = strchr(assignment, '=');
        return equals && equals[1] == '\0';
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
        case '/':
                r = s->type == '%' ? parse_percent(value, &u) : parse_limit(value, &u);
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

/* Finds the setting of KEY=VALUE; NULL, after an error message, when there is none. */
static const Setting *find_named_setting(ObjectKind kind, const char *assignment) {
        const char *equals = strchr(assignment, '=');

        if (!equals || equals == assignment) {
                (void) ctl_fail("%s: not KEY=VALUE", assignment);
                return NULL;
        }
        size_t n = (size_t) (equals - assignment);
        const Setting *s = find_setting(kind == OBJECT_DEVICE, assignment, n);
        if (!s)
                (void) ctl_fail("%.*s: no such setting of a %s", (int) n, assignment, object_kind_to_string(kind));
        return s;
}

int settings_append(sd_bus_message *m, ObjectKind kind, const char *assignment) {
        const Setting *s = find_named_setting(kind, assignment);

        if (!s)
                return EXIT_FAILURE;
        int r = append_value(m, s, strchr(assignment, '=') + 1);
        if (r == -EINVAL)
                return ctl_fail("%s: not a %s", assignment,
                                s->is_span                       ? "time span, like 5ms"
                                                : s->type == 'b' ? "boolean, yes or no"
                                                : s->type == '%' ? "percentage, like 25%"
                                                : s->type == '/' ? "percentage, like 25%, or infinity"
                                                                 : "number");
        if (r == -ERANGE)
                return ctl_fail("%s: out of range", assignment);
        if (r < 0)
                return ctl_fail("%s: %s", assignment, strerror(-r));
        return 0;
}

/* Returns NAME of policy=NAME, an argument of SetPolicy itself; "" leaves the policy as it is. */
static const char *named_policy(const char *assignment) {
        return strncasecmp(assignment, "policy=", strlen("policy=")) == 0 ? strchr(assignment, '=') + 1 : NULL;
}

/* Settings of groups and devices are stored, unless --runtime was given. */
static uint64_t set_flags(const Ctl *c) {
        return c->runtime ? 0 : SET_FLAG_PERSISTENT;
}

static int new_device_call(Ctl *c, const Target *t, size_t n, char *assignments[], sd_bus_message **ret) {
        const char *policy = "";
        int r;

        for (size_t i = 0; i < n; i++)
                policy = named_policy(assignments[i]) ?: policy;
        r = ctl_new_call(c, NULL, NULL, "SetPolicy", ret);
        if (r >= 0)
                r = sd_bus_message_append(*ret, "sst", t->name, policy, set_flags(c));
        return r < 0 ? ctl_fail("%s: %s", t->text, strerror(-r)) : 0;
}

static int new_set_call(Ctl *c, const Target *t, sd_bus_message **ret) {
        int r;

        if (t->kind == OBJECT_GROUP) {
                r = ctl_new_call(c, NULL, NULL, "SetGroup", ret);
                if (r >= 0)
                        r = sd_bus_message_append(*ret, "st", t->name, set_flags(c));
        } else {
                r = ctl_new_call(c, t->path, object_kind_interface(t->kind), "Set", ret);
                if (r >= 0)
                        r = sd_bus_message_append(*ret, "t", UINT64_C(0));
        }
        return r < 0 ? ctl_fail("%s: %s", t->text, strerror(-r)) : 0;
}

/* Appends "Unset": the names of settings with an empty value. */
static int append_unset(sd_bus_message *m, ObjectKind kind, size_t n, char *assignments[]) {
        int r;

        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", "Unset");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', "as");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "s");
        for (size_t i = 0; i < n && r >= 0; i++) {
                if (!is_unset(assignments[i]))
                        continue;
                if (kind == OBJECT_DEVICE && named_policy(assignments[i])) {
                        r = sd_bus_message_append(m, "s", "Policy");
                        continue;
                }
                const Setting *s = find_named_setting(kind, assignments[i]);
                if (!s)
                        return EXIT_FAILURE;
                r = sd_bus_message_append(m, "s", s->name);
        }
        for (unsigned i = 0; i < 3 && r >= 0; i++)
                r = sd_bus_message_close_container(m);
        return r < 0 ? ctl_fail("%s", strerror(-r)) : 0;
}

/* Appends the a{sv} of a call that sets. */
static int append_settings(sd_bus_message *m, ObjectKind kind, size_t n, char *assignments[]) {
        bool any_unset = false;
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r < 0)
                return ctl_fail("%s", strerror(-r));
        for (size_t i = 0; i < n; i++) {
                if (is_unset(assignments[i])) {
                        any_unset = true;
                        continue;
                }
                if (kind == OBJECT_DEVICE && named_policy(assignments[i]))
                        continue;
                r = settings_append(m, kind, assignments[i]);
                if (r != 0)
                        return r;
        }
        r = any_unset ? append_unset(m, kind, n, assignments) : 0;
        if (r != 0)
                return r;
        r = sd_bus_message_close_container(m);
        return r < 0 ? ctl_fail("%s", strerror(-r)) : 0;
}

/* Sets and unsets all settings of one target with one call. */
static int set_target(Ctl *c, const Target *t, size_t n, char *assignments[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;
        int r;

        r = t->kind == OBJECT_DEVICE ? new_device_call(c, t, n, assignments, &m) : new_set_call(c, t, &m);
        if (r == 0)
                r = append_settings(m, t->kind, n, assignments);
        if (r != 0)
                return r;
        r = ctl_call(c, m, &error, NULL);
        return r < 0 ? ctl_call_failed(c, &error, r, t->text) : 0;
}

int verb_set(Ctl *c, int argc, char *argv[]) {
        _cleanup_(target_done)
        Target t = {};

        int r = target_resolve(c, argv[0], TARGET_MAY_BE_NEW | (c->force ? TARGET_MAY_BE_GONE : 0), &t);
        return r != 0 ? r : set_target(c, &t, (size_t) argc - 1, argv + 1);
}

/* Returns 0, a negative errno, or an exit status after an error message. */
typedef int (*target_call_t)(Ctl *c, const Target *t, const char *method, sd_bus_error *e);

/* Calls for each target in the order of the command line, until one fails. Returns an exit status. */
static int for_each_target(Ctl *c, int argc, char *argv[], TargetFlags flags, target_call_t call, const char *method) {
        for (int i = 0; i < argc; i++) {
                _cleanup_(sd_bus_error_free)
                sd_bus_error error = SD_BUS_ERROR_NULL;
                _cleanup_(target_done)
                Target t = {};
                int r;

                r = target_resolve(c, argv[i], flags, &t);
                if (r != 0)
                        return r;
                r = call(c, &t, method, &error);
                if (r < 0)
                        return ctl_call_failed(c, &error, r, t.text);
                if (r > 0)
                        return r;
        }
        return 0;
}

/* Resets every key of a device to the configuration's value. */
static int reset_device(Ctl *c, const Target *t) {
        char *assignments[ELEMENTSOF(settings) + 1];
        size_t n = 0;
        int r = 0;

        assignments[n++] = strdup("policy=");
        for (size_t i = 0; i < ELEMENTSOF(settings); i++)
                if (settings[i].of_device && asprintf(&assignments[n++], "%s=", settings[i].key) < 0)
                        assignments[n - 1] = NULL;
        for (size_t i = 0; i < n; i++)
                if (!assignments[i])
                        r = ctl_fail("out of memory");
        if (r == 0)
                r = set_target(c, t, n, assignments);
        for (size_t i = 0; i < n; i++)
                free(assignments[i]);
        return r;
}

static int call_reset(Ctl *c, const Target *t, const char *method, sd_bus_error *e) {
        int r;

        if (t->kind == OBJECT_DEVICE)
                return reset_device(c, t);
        if (t->kind == OBJECT_GROUP)
                r = ctl_call_method(c, NULL, NULL, "ResetGroup", e, NULL, "st", t->name, UINT64_C(0));
        else
                r = ctl_call_method(c, t->path, object_kind_interface(t->kind), method, e, NULL, "t", UINT64_C(0));
        return MIN(r, 0);
}

static int call_plain(Ctl *c, const Target *t, const char *method, sd_bus_error *e) {
        if (t->kind == OBJECT_DEVICE)
                return ctl_fail("%s: only groups, clients and queues can be suspended", t->text);

        int r = ctl_call_method(c, t->path, object_kind_interface(t->kind), method, e, NULL, NULL);
        return MIN(r, 0);
}

int verb_reset(Ctl *c, int argc, char *argv[]) {
        return for_each_target(c, argc, argv, TARGET_MAY_BE_NEW | TARGET_MAY_BE_GONE, call_reset, "Reset");
}

/* Finds the cgroup of a running unit without clients; "" when it does not run. */
static int unit_cgroup(const Ctl *c, const char *unit, char **ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *bus = NULL;

        int r = systemd_open(c, false, &bus);
        return r < 0 ? r : systemd_unit_cgroup(bus, unit, &error, ret);
}

static int call_by_name(Ctl *c, const char *name, const char *method, sd_bus_error *e) {
        return ctl_call_method(c, NULL, NULL, streq(method, "Suspend") ? "SuspendGroup" : "ResumeGroup", e, NULL, "st",
                        name, UINT64_C(0));
}

/* Suspends a target, which needs no group: later processes are held, too. */
static int call_suspend(Ctl *c, const Target *t, const char *method, sd_bus_error *e) {
        _cleanup_free_ char *cgroup = NULL;
        int r;

        if (t->kind != OBJECT_GROUP)
                return call_plain(c, t, method, e);
        r = call_by_name(c, t->name, method, e);
        if (r >= 0 || strpbrk(t->name, "/:") || !sd_bus_error_has_name(e, BUS_ERROR("NoSuchGroup")) ||
                        unit_cgroup(c, t->name, &cgroup) < 0)
                return MIN(r, 0);
        if (isempty(cgroup))
                return ctl_fail("%s: no such group: %s is not active", t->text, t->name);
        sd_bus_error_free(e);
        r = call_by_name(c, cgroup, method, e);
        return MIN(r, 0);
}

static int suspend_or_resume(Ctl *c, const char *method, int argc, char *argv[]) {
        return for_each_target(c, argc, argv, TARGET_MAY_BE_NEW | TARGET_MAY_BE_GONE, call_suspend, method);
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

/* --- which keys there are --- */

#define KEY_OF_ANYBODY(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, ...)               \
        SETTING_IF_##WHOSE(#name ", ")
#define KEY_OF_GROUPS(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, ...)                \
        SETTING_UNLESS_##WHOSE(#name ", ")

/* In lines of at most 100 columns. */
static void print_keys(const char *whose, const char *keys) {
        int column = printf("%s", whose);

        for (size_t n; *keys; keys += n + strspn(keys + n, " ")) {
                n = strcspn(keys, " ");
                if (column + 1 + (int) n > 100)
                        column = printf("\n ") - 1;
                column += printf(" %.*s", (int) n, keys);
        }
        printf("\n");
}

void settings_print_keys(void) {
        static const char of_anybody[] = SETTING_ROWS(KEY_OF_ANYBODY, );
        static const char of_groups[] = SETTING_ROWS(KEY_OF_GROUPS, );

        print_keys("KEY is", of_anybody);
        print_keys("or, of a group,", of_groups);
        print_keys("or, of a device,",
                        "policy, concurrency, timeslice, threshold, preemption, accounting, linger, "
                        "starve, starverun.");
}
