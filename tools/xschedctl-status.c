/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * status: is the service there, is it well, and what does it schedule
 */

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>

#include "tools/xschedctl-bus.h"
#include "tools/xschedctl-list.h"
#include "tools/xschedctl-terminal.h"

/* (p50, p99, max, samples), NULL while there are no samples. */
static const Value *decision_latency(const Object *manager) {
        const Value *v = object_get(manager, "DecisionLatency");

        return v->type == VALUE_LIST && v->n_items == 4 && value_get_uint(v->items + 3) > 0 ? v->items
                                                                                            : NULL;
}

static int status_not_running(const Ctl *c) {
        char buf[256];

        if (c->json != JSON_OFF) {
                Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
                const Value running = value_bool(false);

                json_begin(&j, NULL, '{');
                json_value(&j, "running", &running);
                json_end(&j, '}');
        } else
                printf("%sxschedd is not running%s on %s.\n", colors_wanted() ? "\033[1m" : "",
                                colors_wanted() ? "\033[0m" : "", ctl_bus_describe(c, buf, sizeof(buf)));
        return EXIT_NOT_RUNNING;
}

/* Where what GPUs do is known from, and what of it does not work. */
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

static void print_head(const Ctl *c, const Snapshot *s) {
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
                        object_get_uint(m, "NEdges"), object_get_uint(m, "NVerdicts"),
                        object_get_uint(m, "NWakeups"));
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
}

static int print_section(const Ctl *c, const Table *t) {
        if (t->n_rows == 0)
                return 0;
        putchar('\n');
        return table_print(t, stdout, terminal_width(c), t->n_rows, c->legend);
}

static void print_json(const Ctl *c, const Snapshot *s, const Table *devices, const Table *groups,
                const Table *clients) {
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
        Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
        const Value running = value_bool(true);

        json_begin(&j, NULL, '{');
        json_value(&j, "running", &running);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                json_value(&j, fields[i].key, object_get(&s->manager, fields[i].property));
        table_print_json(devices, &j, "devices");
        table_print_json(groups, &j, "groups");
        table_print_json(clients, &j, "clients");
        json_end(&j, '}');
}

int verb_status(Ctl *c, int argc, char *argv[]) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(table_done)
        Table devices = {}, groups = {}, clients = {};
        _cleanup_(snapshot_done)
        Snapshot s = {};
        int r;

        r = ctl_open_bus(c);
        if (r >= 0)
                r = snapshot_fetch(c, &error, &s);
        if (r < 0 && error_is_not_running(&error, r))
                return status_not_running(c);
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);

        snapshot_measure(c, &s);
        r = list_devices(&s, &devices);
        if (r >= 0)
                r = list_groups(&s, &groups);
        if (r >= 0)
                r = list_clients(&s, &clients);
        if (r < 0)
                return ctl_fail("out of memory");

        pager_open(c);
        if (c->json != JSON_OFF)
                print_json(c, &s, &devices, &groups, &clients);
        else {
                print_head(c, &s);
                r = print_section(c, &devices);
                if (r >= 0)
                        r = print_section(c, &groups);
                if (r >= 0)
                        r = print_section(c, &clients);
        }
        pager_close();
        return r < 0 ? ctl_fail("cannot print the status: %s", strerror(-r)) : 0;
}
