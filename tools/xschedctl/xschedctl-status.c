/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * status: whether the service runs and is well, and what it schedules; or what belongs to a process, a group or a
 * device
 */

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>

#include "tools/shared/ctl-bus.h"
#include "tools/shared/terminal.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl-usage.h"
#include "tools/xschedctl/xschedctl-waits.h"
#include "tools/xschedctl/xschedctl.h"

/* (p50, p99, max, samples), NULL while there are no samples. */
static const Value *decision_latency(const Object *manager) {
        const Value *v = object_get(manager, "DecisionLatency");

        return v->type == VALUE_LIST && v->n_items == 4 && value_get_uint(v->items + 3) > 0 ? v->items : NULL;
}

static int status_not_running(const Ctl *c, int bus_error) {
        char buf[256];

        if (c->json != JSON_OFF) {
                Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
                const Value running = value_bool(false);

                json_begin(&j, NULL, '{');
                json_value(&j, "running", &running);
                (void) json_end(&j); /* the exit status is not 0 already */
        } else if (bus_error < 0 && (c->host || c->machine))
                printf("%sUnknown%s: %s cannot be reached: %s.\n", colors_wanted() ? "\033[1m" : "",
                                colors_wanted() ? "\033[0m" : "", ctl_bus_describe(c, buf, sizeof(buf)),
                                strerror(-bus_error));
        else
                printf("%sxschedd is not running%s on %s%s%s.\n", colors_wanted() ? "\033[1m" : "",
                                colors_wanted() ? "\033[0m" : "", ctl_bus_describe(c, buf, sizeof(buf)),
                                bus_error < 0 ? ", which cannot be reached: " : "",
                                bus_error < 0 ? strerror(-bus_error) : "");
        return EXIT_NOT_RUNNING;
}

/* Prints the sources of metrics, and those that do not work. */
static void print_metrics_sources(const Snapshot *s) {
        const char *before = NULL, *source;
        const Object *d;

        SNAPSHOT_FOREACH(d, s, OBJECT_DEVICE) {
                source = value_get_string(object_get_metric(d, "Source"));
                if (source && !streq_ptr(source, before))
                        printf("   Metrics: %s\n", source);
                before = source ?: before;
        }
}

static void print_head(const Ctl *c, const Snapshot *s, const Value *statistics) {
        const Object *m = &s->manager;
        const Value *degraded = object_get(m, "Degraded"), *latency = decision_latency(m);
        bool well = degraded->type != VALUE_LIST || degraded->n_items == 0;
        const char *color = !colors_wanted() ? "" : well ? "\033[32m" : "\033[33m";
        const char *off = colors_wanted() ? "\033[0m" : "";
        const char *dot = streq(nl_langinfo(CODESET), "UTF-8") ? "●" : "*";
        char buf[256], p50[32], p99[32], max[32];

        printf("%s%s%s xschedd %s on %s: %s%s%s\n", color, dot, off, object_get_string(m, "Version"),
                        ctl_bus_describe(c, buf, sizeof(buf)), color, well ? "running" : "degraded", off);
        printf("   Clients: %" PRIu64 " with %" PRIu64 " queues\n", object_get_uint(m, "NClients"),
                        object_get_uint(m, "NQueues"));
        printf("    Events: %" PRIu64 " edges, %" PRIu64 " verdicts, %" PRIu64 " wake-ups\n",
                        object_get_uint(m, "NEdges"), object_get_uint(m, "NVerdicts"), object_get_uint(m, "NWakeups"));
        if (latency)
                printf(" Decisions: p50 %s, p99 %s, at most %s\n",
                                format_usec(p50, sizeof(p50), value_get_uint(latency)),
                                format_usec(p99, sizeof(p99), value_get_uint(latency + 1)),
                                format_usec(max, sizeof(max), value_get_uint(latency + 2)));
        for (size_t i = 0; !well && i < degraded->n_items; i++) {
                _cleanup_free_ char *text = value_format(degraded->items + i);
                printf("  Degraded: %s\n", strempty(text));
        }
        print_metrics_sources(s);
        print_device_use(s, statistics);
}

/* Sections, in the order in which they are shown. */
typedef enum Section {
        SECTION_DEVICES,
        SECTION_GROUPS,
        SECTION_CLIENTS,
        SECTION_WAITS,
        SECTION_QUEUES,
        _SECTION_MAX,
} Section;

static const struct {
        const char *key;
        int (*list)(const Snapshot *s, Table *ret);
} sections[_SECTION_MAX] = {
                [SECTION_DEVICES] = {"devices", list_devices},
                [SECTION_GROUPS] = {"groups", list_groups},
                [SECTION_CLIENTS] = {"clients", list_clients},
                [SECTION_WAITS] = {"waits", list_waits},
                [SECTION_QUEUES] = {"queues", list_queues},
};

/* Without a target there would be too many queues to read. */
static Section sections_end(size_t n_targets) {
        return n_targets > 0 ? _SECTION_MAX : SECTION_QUEUES;
}

static void print_manager_json(Json *j, const Object *manager) {
        static const struct {
                const char *key;
                const char *property;
        } fields[] = {
                        {"version", "Version"},
                        {"degraded", "Degraded"},
                        {"n_clients", "NClients"},
                        {"n_queues", "NQueues"},
                        {"edges", "NEdges"},
                        {"verdicts", "NVerdicts"},
                        {"wakeups", "NWakeups"},
                        {"decision_latency", "DecisionLatency"},
        };
        const Value running = value_bool(true);

        json_value(j, "running", &running);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                json_value(j, fields[i].key, object_get(manager, fields[i].property));
}

/* Comes after the tables of the targets. */
static void print_use(const Snapshot *s, const Value *statistics) {
        putchar('\n');
        print_device_use(s, statistics);
        print_group_use(s);
}

static int print_status(
                const Ctl *c, const Snapshot *s, const Value *statistics, const Table *tables, size_t n_targets) {
        Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
        bool first = n_targets > 0;
        int r = 0;

        if (c->json != JSON_OFF) {
                json_begin(&j, NULL, '{');
                if (n_targets == 0)
                        print_manager_json(&j, &s->manager);
        } else if (n_targets == 0)
                print_head(c, s, statistics);
        for (Section i = 0; i < sections_end(n_targets) && r >= 0; i++)
                if (c->json != JSON_OFF)
                        (void) table_print_json(tables + i, &j, sections[i].key);
                else if (tables[i].n_rows > 0) {
                        if (!first)
                                putchar('\n');
                        first = false;
                        r = table_print(tables + i, stdout, terminal_width(c), tables[i].n_rows, c->legend);
                }
        if (c->json != JSON_OFF)
                r = json_end(&j);
        else if (n_targets > 0 && r >= 0)
                print_use(s, statistics);
        return r;
}

static int show_status(Ctl *c, Snapshot *s, const Value *statistics, size_t n_targets) {
        Table tables[_SECTION_MAX] = {};
        int r = 0;

        snapshot_measure(c, s);
        for (Section i = 0; i < sections_end(n_targets) && r >= 0; i++)
                r = sections[i].list(s, tables + i);
        if (r >= 0) {
                pager_open(c);
                r = print_status(c, s, statistics, tables, n_targets);
                pager_close();
        }
        for (Section i = 0; i < _SECTION_MAX; i++)
                table_done(tables + i);
        return r < 0 ? ctl_fail("cannot print the status: %s", strerror(-r)) : 0;
}

static Object *find(const Snapshot *s, const char *path) {
        for (size_t i = 0; i < s->n_objects; i++)
                if (streq(s->objects[i].path, path))
                        return s->objects + i;
        return NULL;
}

static int look_at_target(Ctl *c, const Snapshot *s, const Target *t) {
        Object *o = t->path ? find(s, t->path) : NULL;

        if (t->path && !o)
                return ctl_fail("%s: no such object", t->text);
        return o && o->kind == OBJECT_GROUP && target_add_unregistered(c, t, o) < 0 ? ctl_fail("out of memory") : 0;
}

static int status_of_targets(Ctl *c, Snapshot *s, int n, char *names[]) {
        _cleanup_free_ const char **paths = calloc((size_t) n, sizeof(char *));
        _cleanup_free_ Target *targets = calloc((size_t) n, sizeof(Target));
        int r = 0;

        if (!paths || !targets)
                return ctl_fail("out of memory");
        for (int i = 0; i < n && r == 0; i++) {
                r = target_resolve(c, names[i], 0, targets + i);
                if (r == 0)
                        r = look_at_target(c, s, targets + i);
                if (r == 0)
                        paths[i] = strempty(targets[i].path);
        }
        if (r == 0 && snapshot_narrow(s, paths, (size_t) n) < 0)
                r = ctl_fail("out of memory");
        for (int i = 0; i < n; i++)
                target_done(targets + i);
        return r;
}

int verb_status(Ctl *c, int argc, char *argv[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(snapshot_done)
        Snapshot s = {};
        _cleanup_(value_done)
        Value statistics = {};
        int r;

        r = ctl_open_bus(c);
        if (r < 0)
                return status_not_running(c, r);
        r = snapshot_fetch(c, &error, &s);
        if (r < 0 && error_is_not_running(&error, r))
                return status_not_running(c, error_is_unreachable(c, &error, r) ? r : 0);
        if (r >= 0 && c->json == JSON_OFF)
                r = statistics_fetch(c, &error, &statistics);
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);
        r = argc > 0 ? status_of_targets(c, &s, argc, argv) : 0;
        return r != 0 ? r : show_status(c, &s, &statistics, (size_t) argc);
}
