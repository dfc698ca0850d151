/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Expositions
 *
 * The two formats differ in the name of a family (in OpenMetrics only its samples have _total), in the UNIT line, in
 * the type of an info, and in the last line.
 */

#include "tools/exporter/render.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/exporter/label.h"

#define OTHERS       "(others)" /* neither a device nor a group can be called so */
#define USEC_PER_SEC UINT64_C(1000000)

typedef struct Out {
        FILE *f;
        Format format;
        const char *name, *suffix; /* of the family */
        unsigned n_labels;         /* of the sample */
} Out;

/* --- families --- */

typedef enum Type {
        COUNTER,
        GAUGE,
        HISTOGRAM,
        INFO,
} Type;

static void family(Out *o, const char *name, Type type, const char *unit, const char *help) {
        static const char *const names[] = {"counter", "gauge", "histogram", "info"};
        static const char *const suffixes[] = {"_total", "", "", "_info"};
        bool open = o->format == FORMAT_OPENMETRICS;

        o->name = name;
        o->suffix = suffixes[type];
        const char *suffix = open ? "" : o->suffix;
        fprintf(o->f, "# HELP %s%s %s\n", name, suffix, help);
        fprintf(o->f, "# TYPE %s%s %s\n", name, suffix, type == INFO && !open ? "gauge" : names[type]);
        if (open && unit)
                fprintf(o->f, "# UNIT %s %s\n", name, unit);
}

static void begin(Out *o, const char *suffix) {
        fprintf(o->f, "%s%s", o->name, suffix);
        o->n_labels = 0;
}

/* A label without a value is the same as no label. */
static void label(Out *o, const char *key, const char *value) {
        if (isempty(value))
                return;
        fprintf(o->f, "%s%s=\"", o->n_labels++ > 0 ? "," : "{", key);
        label_print(o->f, value);
        fputc('"', o->f);
}

static void end_labels(Out *o) {
        (void) fputs(o->n_labels > 0 ? "} " : " ", o->f);
}

static void end_number(Out *o, uint64_t v) {
        end_labels(o);
        fprintf(o->f, "%" PRIu64 "\n", v);
}

static void end_seconds(Out *o, uint64_t us) {
        end_labels(o);
        fprintf(o->f, "%" PRIu64 ".%06" PRIu64 "\n", us / USEC_PER_SEC, us % USEC_PER_SEC);
}

static void end_float(Out *o, double v) {
        end_labels(o);
        fprintf(o->f, "%.9g\n", v);
}

static void plain(Out *o, const char *name, Type type, const char *help, uint64_t v) {
        if (v == UNKNOWN)
                return;
        family(o, name, type, NULL, help);
        begin(o, o->suffix);
        end_number(o, v);
}

static void bucket(Out *o, const char *device, const char *le, uint64_t count) {
        begin(o, "_bucket");
        label(o, "device", device);
        label(o, "le", le);
        end_number(o, count);
}

static void histogram(Out *o, const char *device, const SnapshotHistogram *h) {
        char le[32];

        if (h->n_bounds == 0)
                return;
        for (size_t i = 0; i < h->n_bounds; i++) {
                (void) snprintf(le, sizeof(le), "%.9g", (double) h->bounds_us[i] / (double) USEC_PER_SEC);
                bucket(o, device, le, h->counts[i]);
        }
        bucket(o, device, "+Inf", h->count);
        begin(o, "_sum");
        label(o, "device", device);
        end_seconds(o, h->sum_us);
        begin(o, "_count");
        label(o, "device", device);
        end_number(o, h->count);
}

/* --- the service --- */

/* A reason is "KEY: TEXT". Only the key is a label, because the text changes with every detail. */
static void degraded(Out *o, const Snapshot *s) {
        char seen[SNAPSHOT_REASONS_MAX][64];
        uint64_t n = 0, n_seen = 0;

        family(o, "xsched_degraded", GAUGE, NULL,
                        "Reasons why something does not work as configured, one series for each.");
        for (char **p = s->degraded; p && *p; p++, n++) {
                char key[64];
                bool known = n_seen == ELEMENTSOF(seen);

                (void) snprintf(key, MIN(sizeof(key), strcspn(*p, ":") + 1), "%s", *p);
                for (size_t i = 0; i < n_seen && !known; i++)
                        known = streq(seen[i], key);
                if (known)
                        continue;
                (void) snprintf(seen[n_seen++], sizeof(key), "%s", key);
                begin(o, "");
                label(o, "reason", key);
                end_number(o, 1);
        }
        plain(o, "xsched_degraded_reasons", GAUGE,
                        "How many reasons there are why something does not work as configured.", n);
}

static void service(Out *o, const Snapshot *s) {
        plain(o, "xsched_up", GAUGE, "Whether the scheduling service answered.", s->up);
        if (!s->up)
                return;
        family(o, "xsched_build", INFO, NULL, "The version of the scheduling service.");
        begin(o, "_info");
        label(o, "version", s->version);
        end_number(o, 1);
        degraded(o, s);
        plain(o, "xsched_clients", GAUGE, "Processes that are registered.", s->n_clients);
        plain(o, "xsched_queues", GAUGE, "Queues that are registered.", s->n_queues);
        plain(o, "xsched_edges", COUNTER, "Watched edges handled.", s->n_edges);
        plain(o, "xsched_verdicts", COUNTER, "Verdicts written for queues.", s->n_verdicts);
        plain(o, "xsched_wakeups", COUNTER, "Times that the event loop of the service woke up.", s->n_wakeups);
        plain(o, "xsched_lease_expirations", COUNTER,
                        "Launches that passed a hold because the service had not renewed its lease.",
                        s->n_lease_expired);
        if (s->decision.n_bounds > 0) {
                family(o, "xsched_decision_seconds", HISTOGRAM, "seconds",
                                "From a ready edge to the verdicts that it caused being written.");
                histogram(o, NULL, &s->decision);
        }
}

/* --- devices --- */

#define EACH_DEVICE(o, s, d)                                                                                           \
        for (size_t _i = 0; _i < (s)->n_devices + ((s)->n_devices_left_out > 0); _i++)                                 \
                for (const SnapshotDevice *d = _i < (s)->n_devices ? (s)->devices[_i] : &(s)->other_devices; d;        \
                                d = NULL)

static const char *device_name(const SnapshotDevice *d) {
        return d->id ?: OTHERS;
}

static void device_info(Out *o, const Selection *s) {
        family(o, "xsched_device", INFO, NULL, "What a device is, and which policy it has.");
        EACH_DEVICE(o, s, d) {
                if (!d->id)
                        continue;
                begin(o, "_info");
                label(o, "device", d->id);
                label(o, "name", d->name);
                label(o, "backend", d->backend);
                label(o, "policy", d->policy);
                end_number(o, 1);
        }
}

static void device_counter(Out *o, const Selection *s, DeviceCounter c, const char *name, const char *help) {
        bool is_time = c != DEVICE_PREEMPTED;

        family(o, name, COUNTER, is_time ? "seconds" : NULL, help);
        EACH_DEVICE(o, s, d) {
                if (d->counters[c] == UNKNOWN)
                        continue;
                begin(o, "_total");
                label(o, "device", device_name(d));
                if (is_time)
                        end_seconds(o, d->counters[c]);
                else
                        end_number(o, d->counters[c]);
        }
}

static void device_gauge(Out *o, const Selection *s, size_t offset, const char *name, const char *help) {
        family(o, name, GAUGE, NULL, help);
        EACH_DEVICE(o, s, d) {
                begin(o, "");
                label(o, "device", device_name(d));
                end_number(o, *(const uint32_t *) (const void *) ((const char *) d + offset));
        }
}

static void device_hooked(Out *o, const Selection *s) {
        static const char *const kinds[_HOOKED_KIND_MAX] = {"calls", "doorbell", "create", "poll", "none", "unknown"};

        family(o, "xsched_device_hooked_queues", GAUGE, NULL,
                        "Queues on the device by how their launches are seen: poll and none do not pass the gate.");
        EACH_DEVICE(o, s, d)
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                begin(o, "");
                label(o, "device", device_name(d));
                label(o, "hooked", kinds[i]);
                end_number(o, d->n_hooked[i]);
        }
        device_gauge(o, s, offsetof(SnapshotDevice, n_unheld), "xsched_device_unheld_queues",
                        "Queues on the device that a hold does not stop.");
}

static double measured_utilisation(const SnapshotDevice *d) {
        return d->utilisation == UINT32_MAX ? NAN : d->utilisation / 100.0;
}

static double measured_memory(const SnapshotDevice *d) {
        return d->memory == UNKNOWN ? NAN : (double) d->memory;
}

static double measured_memory_used(const SnapshotDevice *d) {
        return d->memory_used == UNKNOWN ? NAN : (double) d->memory_used;
}

static double measured_temperature(const SnapshotDevice *d) {
        return d->temperature;
}

static double measured_power(const SnapshotDevice *d) {
        return d->power;
}

static void device_measured(Out *o, const Selection *s) {
        static const struct {
                const char *name, *unit, *help;
                double (*get)(const SnapshotDevice *d);
        } all[] = {
                        {"xsched_device_utilisation_ratio", "ratio", "Utilisation, as the driver measures it.",
                                        measured_utilisation},
                        {"xsched_device_memory_bytes", "bytes", "Memory that the device has.", measured_memory},
                        {"xsched_device_memory_used_bytes", "bytes", "Memory in use.", measured_memory_used},
                        {"xsched_device_temperature_celsius", "celsius", "Temperature.", measured_temperature},
                        {"xsched_device_power_watts", "watts", "Power drawn.", measured_power},
        };

        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                family(o, all[i].name, GAUGE, all[i].unit, all[i].help);
                EACH_DEVICE(o, s, d) {
                        double v = all[i].get(d);

                        if (!isfinite(v))
                                continue;
                        begin(o, "");
                        label(o, "device", device_name(d));
                        end_float(o, v);
                }
        }
}

static void devices(Out *o, const Selection *s) {
        device_info(o, s);
        device_counter(o, s, DEVICE_BUSY, "xsched_device_busy_seconds", "Time for which the device had work.");
        device_counter(o, s, DEVICE_KEPT, "xsched_device_kept_seconds",
                        "Time for which the device had no work though a group wanted it: it was kept for "
                        "who had just become idle, or handed over.");
        device_counter(o, s, DEVICE_IDLE, "xsched_device_idle_seconds", "Time for which no group wanted the device.");
        device_counter(o, s, DEVICE_PREEMPTED, "xsched_device_preemptions",
                        "Times that a group lost the device to another.");
        device_gauge(o, s, offsetof(SnapshotDevice, n_entities), "xsched_device_entities",
                        "Groups, and clients and queues that are scheduled on their own, on the device.");
        device_gauge(o, s, offsetof(SnapshotDevice, n_ready), "xsched_device_ready_entities",
                        "Those that have work now.");
        device_gauge(o, s, offsetof(SnapshotDevice, n_queues), "xsched_device_queues", "Queues on the device.");
        device_hooked(o, s);
        device_measured(o, s);
        family(o, "xsched_ready_to_run_seconds", HISTOGRAM, "seconds",
                        "How long queues with work waited until they might run; 0 for those that were not held.");
        EACH_DEVICE(o, s, d)
        if (d->id)
                histogram(o, d->id, &d->ready_to_run);
}

/* --- groups --- */

#define EACH_GROUP(o, s, g)                                                                                            \
        for (size_t _i = 0; _i < (s)->n_groups + ((s)->n_groups_left_out > 0); _i++)                                   \
                for (const SnapshotGroup *g = _i < (s)->n_groups ? (s)->groups[_i] : &(s)->other_groups; g; g = NULL)

static void group_labels(Out *o, const SnapshotGroup *g) {
        label(o, "group", g->name ?: OTHERS);
        label(o, "device", g->device);
        label(o, "class", g->class);
        label(o, "unit", g->unit);
        label(o, "container", g->container);
        label(o, "pod", g->pod);
        label(o, "slurm_job", g->slurm_job);
}

static void group_counter(Out *o, const Selection *s, GroupCounter c, const char *name, const char *help) {
        bool is_time = c != GROUP_PREEMPTED;

        family(o, name, COUNTER, is_time ? "seconds" : NULL, help);
        EACH_GROUP(o, s, g) {
                if (g->counters[c] == UNKNOWN)
                        continue;
                begin(o, "_total");
                group_labels(o, g);
                if (is_time)
                        end_seconds(o, g->counters[c]);
                else
                        end_number(o, g->counters[c]);
        }
}

static void group_gauge(Out *o, const Selection *s, size_t offset, const char *name, const char *help) {
        family(o, name, GAUGE, NULL, help);
        EACH_GROUP(o, s, g) {
                begin(o, "");
                group_labels(o, g);
                end_number(o, *(const uint32_t *) (const void *) ((const char *) g + offset));
        }
}

/* Groups that are left out have neither a priority nor a weight. */
static void group_settings(Out *o, const Selection *s) {
        family(o, "xsched_group_priority", GAUGE, NULL, "Priority in force; the higher runs first.");
        for (size_t i = 0; i < s->n_groups; i++) {
                begin(o, "");
                group_labels(o, s->groups[i]);
                end_float(o, s->groups[i]->priority);
        }
        family(o, "xsched_group_weight", GAUGE, NULL, "Weight in force, among groups beside it of equal priority.");
        for (size_t i = 0; i < s->n_groups; i++) {
                begin(o, "");
                group_labels(o, s->groups[i]);
                end_number(o, s->groups[i]->weight);
        }
}

/* The source is no label of the counter: it changes whenever the group becomes alone on its device or not, and the
 * counter would be another one each time. */
static void group_source(Out *o, const Selection *s) {
        family(o, "xsched_group_run_source", GAUGE, NULL,
                        "How the time is counted in which the device had work of the group.");
        for (size_t i = 0; i < s->n_groups; i++) {
                const SnapshotGroup *g = s->groups[i];

                begin(o, "");
                group_labels(o, g);
                label(o, "source", isempty(g->source) ? "tracked" : g->source);
                end_number(o, 1);
        }
}

static void group_held_for(Out *o, const Selection *s) {
        family(o, "xsched_group_held_seconds", GAUGE, "seconds",
                        "For how long what waits longest has waited now, and why; 0 where nothing waits, or "
                        "what waits is suspended.");
        EACH_GROUP(o, s, g) {
                begin(o, "");
                group_labels(o, g);
                label(o, "reason", g->held_reason);
                end_seconds(o, g->held_us);
        }
}

static void groups(Out *o, const Selection *s) {
        group_counter(o, s, GROUP_RUN, "xsched_group_run_seconds", "Time in which the device had work of the group.");
        group_source(o, s);
        group_counter(o, s, GROUP_KEPT, "xsched_group_kept_seconds",
                        "Time in which the device was kept idle for the group while others wanted it.");
        group_counter(o, s, GROUP_WAIT, "xsched_group_wait_seconds",
                        "Time in which the group had work and the device had other work, or none.");
        group_counter(o, s, GROUP_DRAIN_WAIT, "xsched_group_drain_wait_seconds",
                        "Of the time that the group waited: its turn had come, and what others had "
                        "submitted before was not over.");
        group_counter(o, s, GROUP_SERVICE_WAIT, "xsched_group_service_wait_seconds",
                        "Of the time that the group waited: it could go, and the service had not said so yet.");
        group_counter(o, s, GROUP_PREEMPTED, "xsched_group_preemptions",
                        "Times that the group lost the device to another.");
        group_gauge(o, s, offsetof(SnapshotGroup, n_held), "xsched_group_held",
                        "What of the group has work, or is suspended, and may not run now.");
        group_held_for(o, s);
        group_gauge(o, s, offsetof(SnapshotGroup, n_clients), "xsched_group_clients", "Processes of the group.");
        group_gauge(o, s, offsetof(SnapshotGroup, n_queues), "xsched_group_queues",
                        "Queues of the group on the device.");
        group_settings(o, s);
}

/* --- all of it --- */

static void exporter(Out *o, const Snapshot *s, const Selection *selection) {
        plain(o, "xsched_exporter_groups_left_out", GAUGE,
                        "Groups on devices that have no series of their own, because there are too many.",
                        selection->n_groups_left_out);
        plain(o, "xsched_exporter_devices_left_out", GAUGE, "Devices that have no series of their own.",
                        selection->n_devices_left_out);
        family(o, "xsched_exporter_collect_seconds", GAUGE, "seconds", "How long the service took to answer.");
        begin(o, "");
        end_float(o, s->seconds);
}

/* Metrics of the host itself, whether the service answers or not. */
static void host(Out *o, const HostMetrics *m) {
        family(o, "xsched_host_processes", GAUGE, NULL,
                        "Processes that have a GPU open, by whether they are scheduled.");
        for (HostState i = 0; i < _HOST_STATE_MAX; i++) {
                begin(o, "");
                label(o, "state", host_state_to_string(i));
                end_number(o, m->n[i]);
        }
        plain(o, "xsched_host_unseen_processes", GAUGE,
                        "Processes of which it could not be seen whether they have a GPU open.", m->n_unseen);
}

int render(const Snapshot *s, const Selection *selection, Format format, char **ret, size_t *ret_size) {
        char *text = NULL;
        size_t size = 0;
        Out o = {.f = open_memstream(&text, &size), .format = format};

        if (!o.f)
                return -ENOMEM;
        service(&o, s);
        if (s->up) {
                devices(&o, selection);
                groups(&o, selection);
        }
        if (s->host.known)
                host(&o, &s->host);
        exporter(&o, s, selection);
        if (format == FORMAT_OPENMETRICS)
                fprintf(o.f, "# EOF\n");
        bool failed = ferror(o.f);
        if (fclose(o.f) != 0 || failed) {
                free(text);
                return -ENOMEM;
        }
        *ret = text;
        *ret_size = size;
        return 0;
}
