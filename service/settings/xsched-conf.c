/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched.conf: reading it
 */

#include <config.h>

#include <fnmatch.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/array.h"
#include "common/conf-types.h"
#include "common/page.h"
#include "common/parse-util.h"
#include "device-settings.h"
#include "service/base/messages.h"
#include "xsched-conf.h"

#define SECTIONS_MAX 256U

static const ConfigLimits limits_default = {
                .clients_per_user = 4096,
                .queues_per_user = 16384,
                .queues_per_client = 1024,
                .jobs_per_user = 1024,
                .devices_per_user = 128,
};

static int type_policy(const char *value, const ConfItem *item, void *data) {
        const PolicyOps *ops = policy_find(value);
        if (!ops)
                return -EINVAL;
        memcpy(data, &ops, item->size);
        return 0;
}

static int type_log_level(const char *value, const ConfItem *item, void *data) {
        int r = log_level_from_string(value);
        if (r < 0)
                return r;
        *(int *) data = r;
        return 0;
}

static int type_log_target(const char *value, const ConfItem *item, void *data) {
        int r = log_target_from_string(value);
        if (r < 0)
                return r;
        *(LogTarget *) data = (LogTarget) r;
        return 0;
}

static int type_privileged(const char *value, const ConfItem *item, void *data) {
        int r = privileged_mode_from_string(value);
        if (r < 0)
                return r;
        *(PrivilegedMode *) data = (PrivilegedMode) r;
        return 0;
}

static int type_threshold(const char *value, const ConfItem *item, void *data) {
        if (!streq(value, "auto"))
                return conf_type_uint.parse(value, item, data);
        *(uint32_t *) data = 0;
        return 0;
}

static int type_cpu_latency(const char *value, const ConfItem *item, void *data) {
        if (!streq(value, "infinity"))
                return conf_type_nsec.parse(value, item, data);
        *(uint64_t *) data = NSEC_INFINITY;
        return 0;
}

static const char *format_threshold(char *buf, size_t size, int64_t limit) {
        return conf_type_uint.format(buf, size, limit);
}

static const ConfType conf_type_threshold = {"auto or a whole number", type_threshold, format_threshold};
static const ConfType conf_type_cpu_latency = {"a time span, or infinity", type_cpu_latency, NULL};
static const ConfType conf_type_privileged = {"one of no, criu and debug", type_privileged, NULL};
static const ConfType conf_type_policy = {"the name of a policy", type_policy, NULL};
static const ConfType conf_type_log_level = {
                "a log level (emerg, alert, crit, err, warning, notice, info, debug, or 0 to 7)", type_log_level, NULL};
static const ConfType conf_type_log_target = {"a log target (auto, journal, console)", type_log_target, NULL};

static const ConfItem device_items[] = {
                /* NOLINTNEXTLINE(bugprone-sizeof-expression): the pointer is what is stored */
                CONF_ITEM("Policy", conf_type_policy, DeviceConfig, policy, 0, 0),
                CONF_ITEM("Concurrency", conf_type_uint, DeviceConfig, params.concurrency, 1, DEVICE_CONCURRENCY_MAX),
                CONF_ITEM("TimeSlice", conf_type_nsec, DeviceConfig, params.timeslice_ns, DEVICE_TURN_MIN,
                                DEVICE_TURN_MAX),
                CONF_ITEM("StarveAfter", conf_type_nsec, DeviceConfig, params.starve_ns, DEVICE_STARVE_MIN,
                                DEVICE_STARVE_MAX),
                CONF_ITEM("StarveRun", conf_type_nsec, DeviceConfig, params.starve_run_ns, DEVICE_TURN_MIN,
                                DEVICE_TURN_MAX),
                CONF_ITEM("Linger", conf_type_nsec, DeviceConfig, params.linger_ns, 0, DEVICE_LINGER_MAX),
                CONF_ITEM("Threshold", conf_type_threshold, DeviceConfig, params.threshold, 1, SETTINGS_THRESHOLD_MAX),
                CONF_ITEM("Budget", conf_type_usec, DeviceConfig, tuning.budget_us, 0, 1 * NSEC_PER_SEC),
                CONF_ITEM("Lead", conf_type_usec, DeviceConfig, tuning.lead_us, 0, 1 * NSEC_PER_MSEC),
                CONF_ITEM("BusyPoll", conf_type_nsec, DeviceConfig, tuning.busy_poll_ns, 0, 1 * NSEC_PER_SEC),
                CONF_ITEM("CPULatency", conf_type_cpu_latency, DeviceConfig, tuning.cpu_latency_ns, 0,
                                1 * NSEC_PER_SEC),
                CONF_ITEM("Preemption", conf_type_preemption, DeviceConfig, tuning.preemption, 0, 0),
                CONF_ITEM("Adaptive", conf_type_bool, DeviceConfig, tuning.adaptive, 0, 0),
                CONF_ITEM("Accounting", conf_type_accounting, DeviceConfig, tuning.accounting, 0, 0),
                CONF_ITEM("PrivilegedPreemption", conf_type_privileged, DeviceConfig, tuning.privileged, 0, 0),
                CONF_ITEM("AllowMESPreemption", conf_type_bool, DeviceConfig, tuning.allow_mes, 0, 0),
};

static const ConfItem limits_items[] = {
                CONF_ITEM("MaxClientsPerUser", conf_type_uint, ConfigLimits, clients_per_user, 1, 1 << 20),
                CONF_ITEM("MaxQueuesPerUser", conf_type_uint, ConfigLimits, queues_per_user, 1, 1 << 24),
                CONF_ITEM("MaxQueuesPerClient", conf_type_uint, ConfigLimits, queues_per_client, 1, PAGE_SLOTS_MAX),
                CONF_ITEM("MaxJobsPerUser", conf_type_uint, ConfigLimits, jobs_per_user, 1, 1 << 20),
                CONF_ITEM("MaxDevicesPerUser", conf_type_uint, ConfigLimits, devices_per_user, 1, 1 << 20),
};

static const ConfItem log_items[] = {
                CONF_ITEM("Level", conf_type_log_level, Config, log_level, 0, 0),
                CONF_ITEM("Target", conf_type_log_target, Config, log_target, 0, 0),
};

/* The defaults, to which an empty assignment returns. */
static Config defaults(void) {
        Config c = {
                        .device = {.policy = policy_all[0],
                                        .params = POLICY_CONFIG_DEFAULT,
                                        .tuning = {.budget_us = 200,
                                                        .lead_us = 20,
                                                        .cpu_latency_ns = NSEC_INFINITY,
                                                        .adaptive = true}},
                        .limits = limits_default,
                        .log_level = LOG_INFO,
                        .log_target = LOG_TARGET_AUTO,
        };

        c.device.params.threshold = 0; /* 0: it depends on the level */
        return c;
}

/* One configuration being read. */
typedef struct Loading {
        Config *config;
        Config defaults;
        const Config *last_good;
        ConfReport report;
        void *report_userdata;
} Loading;

static int open_scheduler(const char *argument, void *userdata, ConfTarget *ret) {
        Loading *l = userdata;

        *ret = (ConfTarget){
                        .data = &l->config->device,
                        .defaults = &l->defaults.device,
                        .last_good = l->last_good ? &l->last_good->device : NULL,
        };
        return 0;
}

static int open_limits(const char *argument, void *userdata, ConfTarget *ret) {
        Loading *l = userdata;

        *ret = (ConfTarget){
                        .data = &l->config->limits,
                        .defaults = &l->defaults.limits,
                        .last_good = l->last_good ? &l->last_good->limits : NULL,
        };
        return 0;
}

static int open_log(const char *argument, void *userdata, ConfTarget *ret) {
        Loading *l = userdata;

        *ret = (ConfTarget){.data = l->config, .defaults = &l->defaults, .last_good = l->last_good};
        return 0;
}

static DeviceSection *find_section(const Config *c, const char *glob) {
        for (size_t i = 0; i < c->n_sections; i++)
                if (streq(c->sections[i].glob, glob))
                        return c->sections + i;
        return NULL;
}

static int open_device(const char *argument, void *userdata, ConfTarget *ret) {
        Loading *l = userdata;
        Config *c = l->config;

        if (isempty(argument) || strlen(argument) >= CONFIG_GLOB_MAX || !string_is_printable(argument))
                return -EINVAL;
        DeviceSection *o = find_section(c, argument);
        if (!o) {
                if (c->n_sections >= SECTIONS_MAX)
                        return -E2BIG;
                DeviceSection *grown = array_grow(c->sections, c->n_sections, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                c->sections = grown;
                o = grown + c->n_sections++;
                *o = (DeviceSection){.values = l->defaults.device};
                (void) snprintf(o->glob, sizeof(o->glob), "%s", argument);
        }
        const DeviceSection *last = l->last_good ? find_section(l->last_good, argument) : NULL;
        *ret = (ConfTarget){
                        .data = &o->values,
                        .defaults = &l->defaults.device,
                        .last_good = last ? &last->values : NULL,
                        .set = &o->given,
                        .last_good_set = last ? last->given : 0,
        };
        return 0;
}

const ConfSection config_sections[] = {
                {.name = "Scheduler",
                                .items = device_items,
                                .n_items = ELEMENTSOF(device_items),
                                .open = open_scheduler},
                {.name = "Device",
                                .takes_argument = true,
                                .items = device_items,
                                .n_items = ELEMENTSOF(device_items),
                                .open = open_device},
                {.name = "Limits", .items = limits_items, .n_items = ELEMENTSOF(limits_items), .open = open_limits},
                {.name = "Log", .items = log_items, .n_items = ELEMENTSOF(log_items), .open = open_log},
};
const size_t config_sections_n = ELEMENTSOF(config_sections);

static void count_problem(const ConfProblem *problem, void *userdata) {
        Loading *l = userdata;

        l->config->n_problems++;
        if (l->report)
                l->report(problem, l->report_userdata);
}

/* A turn that is owed must be shorter than the time for which it is owed; otherwise the guarantee would be the whole
 * device. */
static bool starve_makes_sense(const PolicyConfig *p) {
        return p->starve_run_ns < p->starve_ns;
}

static void check_starve(const Loading *l, const ConfContext *c, DeviceConfig *d, const DeviceConfig *good,
                const char *section) {
        if (starve_makes_sense(&d->params))
                return;
        char run[FORMAT_NSEC_MAX], after[FORMAT_NSEC_MAX];
        conf_report(c, CONF_ERROR, section, 0, -EINVAL, "StarveRun=%s is not shorter than StarveAfter=%s, both ignored",
                        format_nsec(run, sizeof(run), d->params.starve_run_ns),
                        format_nsec(after, sizeof(after), d->params.starve_ns));
        d->params.starve_run_ns = good->params.starve_run_ns;
        d->params.starve_ns = good->params.starve_ns;
}

static void device_apply(DeviceConfig *d, const DeviceSection *o) {
        for (size_t i = 0; i < ELEMENTSOF(device_items); i++)
                if (o->given & (UINT64_C(1) << i))
                        memcpy((uint8_t *) d + device_items[i].offset,
                                        (const uint8_t *) &o->values + device_items[i].offset, device_items[i].size);
}

void config_device(const Config *c, const char *device_id, DeviceConfig *ret) {
        DeviceConfig d = c->device;

        for (size_t i = 0; i < c->n_sections; i++)
                if (fnmatch(c->sections[i].glob, device_id, 0) == 0) {
                        DeviceConfig with = d;
                        device_apply(&with, c->sections + i);
                        /* Two sections may each be valid alone, and not together. */
                        if (!starve_makes_sense(&with.params)) {
                                with.params.starve_ns = d.params.starve_ns;
                                with.params.starve_run_ns = d.params.starve_run_ns;
                        }
                        d = with;
                }
        *ret = d;
}

bool config_names_device(const Config *c, const char *device_id) {
        for (size_t i = 0; i < c->n_sections; i++)
                if (streq(c->sections[i].glob, device_id))
                        return true;
        return false;
}

/* Finds what is wrong only in combination, after reading. */
static void check_devices(Loading *l, const ConfContext *c) {
        Config *config = l->config;

        check_starve(l, c, &config->device, l->last_good ? &l->last_good->device : &l->defaults.device, "[Scheduler]");
        for (size_t i = 0; i < config->n_sections; i++) {
                DeviceSection *o = config->sections + i;
                DeviceConfig d = config->device;
                char section[CONFIG_GLOB_MAX + 16];

                device_apply(&d, o);
                if (starve_makes_sense(&d.params))
                        continue;
                (void) snprintf(section, sizeof(section), "[Device %s]", o->glob);
                check_starve(l, c, &d, &config->device, section);
        }
}

/* Main file and drop-ins in the order of reading. */
typedef struct Places {
        char *main[3];     /* the first that exists is read */
        char *drop_ins[4]; /* NULL-terminated, as conf_files_list() wants them */
        char *classes[4];
} Places;

static void places_done(Places *p) {
        for (size_t i = 0; i < ELEMENTSOF(p->main); i++)
                free(p->main[i]);
        for (size_t i = 0; i < ELEMENTSOF(p->drop_ins); i++)
                free(p->drop_ins[i]);
        for (size_t i = 0; i < ELEMENTSOF(p->classes); i++)
                free(p->classes[i]);
}

static char *_printf_(1, 2) make_path(const char *format, ...) {
        char *s = NULL;
        va_list ap;

        va_start(ap, format);
        int k = vasprintf(&s, format, ap);
        va_end(ap);
        return k < 0 ? NULL : s;
}

/* The root of the installed places. A test's build has another one: tests/unit/config-root.h. */
#ifndef CONF_ROOT
#        define CONF_ROOT ""
#endif

static int places_installed(Places *p) {
        static const char *const dirs[] = {CONF_DIRECTORIES};

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                p->main[i] = make_path("%s%s/xsched.conf", CONF_ROOT, dirs[i]);
                p->drop_ins[i] = make_path("%s%s/xsched.conf.d", CONF_ROOT, dirs[i]);
                p->classes[i] = make_path("%s%s/classes.d", CONF_ROOT, dirs[i]);
                if (!p->main[i] || !p->drop_ins[i] || !p->classes[i])
                        return -ENOMEM;
        }
        return 0;
}

static int places_explicit(const char *file, Places *p) {
        _cleanup_free_ char *copy = strdup(file);
        if (!copy)
                return -ENOMEM;

        p->main[0] = strdup(file);
        p->drop_ins[0] = make_path("%s.d", file);
        p->classes[0] = make_path("%s/classes.d", dirname(copy));
        p->classes[1] = make_path("%s" XSCHED_VENDORDIR "/classes.d", CONF_ROOT);
        return p->main[0] && p->drop_ins[0] && p->classes[0] && p->classes[1] ? 0 : -ENOMEM;
}

static int places_init(const ConfigPaths *paths, Places *ret) {
        _cleanup_(places_done)
        Places p = {0};

        int r = paths->file ? places_explicit(paths->file, &p) : places_installed(&p);
        if (r < 0)
                return r;
        if (paths->classes_dir) {
                for (size_t i = 0; i < ELEMENTSOF(p.classes); i++) {
                        free(p.classes[i]);
                        p.classes[i] = NULL;
                }
                p.classes[0] = strdup(paths->classes_dir);
                if (!p.classes[0])
                        return -ENOMEM;
        }
        *ret = TAKE_GENERIC(p, (Places){0});
        return 0;
}

/* Returns 0, or an error of reading, which was reported. A missing file is an error only if the caller named the
 * file. */
static int load_main(const ConfContext *c, const Places *places, bool named) {
        int r = -ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(places->main) && places->main[i] && r == -ENOENT; i++)
                r = conf_parse_file(c, places->main[i]);
        if (r != -ENOENT)
                return r;
        if (!named)
                return 0;
        conf_report(c, CONF_ERROR, places->main[0], 0, r, "Failed to read the file: %s", strerror(-r));
        return r;
}

/* Returns 0, or the first error of reading, which was reported, after it has read the other files; -ENOMEM at once. */
static int load_drop_ins(const ConfContext *c, const Places *places) {
        _cleanup_(conf_files_done)
        ConfFiles drop_ins = CONF_FILES_NULL;

        int first_error = conf_files_list((const char *const *) places->drop_ins, NULL, ".conf", c, &drop_ins);
        for (size_t i = 0; i < drop_ins.n && first_error != -ENOMEM; i++) {
                int r = conf_parse_file(c, drop_ins.paths[i]);
                if (r == -ENOMEM || (r < 0 && r != -ENOENT && first_error == 0))
                        first_error = r;
        }
        return first_error;
}

int config_load(const ConfigPaths *paths, const Config *last_good, ConfReport report, void *userdata, Config **ret) {
        _cleanup_(places_done)
        Places places = {0};
        _cleanup_(config_freep)
        Config *config = malloc(sizeof(Config));
        if (!config)
                return -ENOMEM;
        *config = defaults();

        Loading loading = {
                        .config = config,
                        .defaults = defaults(),
                        .last_good = last_good,
                        .report = report,
                        .report_userdata = userdata,
        };
        ConfContext context = {
                        .sections = config_sections,
                        .n_sections = config_sections_n,
                        .userdata = &loading,
                        .report = count_problem,
                        .report_userdata = &loading,
        };

        int r = places_init(paths, &places);
        if (r < 0)
                return r;
        int main_error = load_main(&context, &places, paths->file);
        if (main_error == -ENOMEM)
                return main_error;
        r = load_drop_ins(&context, &places);
        if (r == -ENOMEM)
                return r;
        int refused = main_error < 0 && (last_good || paths->file) ? main_error : last_good ? MIN(r, 0) : 0;
        if (refused == 0)
                check_devices(&loading, &context);
        /* Also when nothing of all this will apply: what is wrong with them is told at once. */
        r = classes_load((const char *const *) places.classes, last_good ? &last_good->classes : NULL, count_problem,
                        &loading, &config->classes);
        if (refused < 0 || r < 0)
                return refused < 0 ? refused : r;
        *ret = TAKE_PTR(config);
        return 0;
}

Config *config_free(Config *c) {
        if (!c)
                return NULL;
        free(c->sections);
        classes_done(&c->classes);
        free(c);
        return NULL;
}

void config_log_problem(const ConfProblem *p, void *userdata) {
        const LogFields *fields = LOG_FIELDS(.error = p->error, .config_file = p->file, .config_line = p->line);
        int level = p->severity == CONF_WARNING ? LOG_WARNING : LOG_ERR;

        if (p->line > 0)
                log_event(level, MESSAGE_CONFIG_PROBLEM, fields, "%s:%u: %s", p->file, p->line, p->message);
        else
                log_event(level, MESSAGE_CONFIG_PROBLEM, fields, "%s: %s", p->file, p->message);
}
