/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Results for machines: one JSON object; times in microseconds, rates per second
 */

#include "json.h"
#include "config.h"
#include "json-writer.h"
#include "tools/demo/report.h"

static void add_usec(JsonWriter *w, json_object *to, const char *key, uint64_t ns) {
        json_writer_add_double(w, to, key, (double) ns / 1e3, 3);
}

static void add_settings(JsonWriter *w, json_object *to, const Options *options) {
        json_object *o = json_writer_add(w, to, "settings", json_object_new_object());

        json_writer_add_uint(w, o, "low", options->n_low);
        json_writer_add_double(w, o, "duration_us", (double) options->duration_ns / 1e3, 0);
        json_writer_add_uint(w, o, "kernels", options->n_kernels);
        json_writer_add_uint(w, o, "batch_kernels", options->n_batch_kernels);
        add_usec(w, o, "period_us", options->period_ns);
        add_usec(w, o, "deadline_us", options->deadline_ns);
        json_writer_add_int(w, o, "high_priority", options->high_priority);
        json_writer_add_int(w, o, "low_priority", options->low_priority);
        json_writer_add_string(w, o, "policy", options->policy);
        json_object *settings = json_writer_add(w, o, "xschedd", json_object_new_array());
        for (size_t i = 0; i < options->n_settings; i++)
                json_writer_add_string(w, settings, NULL, options->settings[i]);
}

static void add_latency(JsonWriter *w, json_object *to, const PhaseResult *r) {
        json_object *o = json_writer_add(w, to, "latency", json_object_new_object());
        Summary s = samples_summary(&r->latency);

        json_writer_add_uint(w, o, "tasks", s.n);
        add_usec(w, o, "p50_us", s.p50_ns);
        add_usec(w, o, "p90_us", s.p90_ns);
        add_usec(w, o, "p99_us", s.p99_ns);
        add_usec(w, o, "max_us", s.max_ns);
        add_usec(w, o, "mean_us", s.mean_ns);
        json_writer_add_uint(w, o, "missed", r->n_missed);
        json_writer_add_uint(w, o, "skipped", r->n_skipped);
        json_object *samples = json_writer_add(w, o, "samples_us", json_object_new_array());
        for (size_t i = 0; i < r->latency.n; i++)
                json_writer_add_double(w, samples, NULL, (double) r->latency.items[i].ns / 1e3, 1);
}

static void add_batch(JsonWriter *w, json_object *to, const PhaseResult *r) {
        json_object *o = json_writer_add(w, to, "batch", json_object_new_object());

        json_writer_add_double(w, o, "tasks_per_s", r->batch_total, 4);
        json_object *each = json_writer_add(w, o, "each", json_object_new_array());
        for (unsigned i = 0; i < r->n_batch; i++)
                json_writer_add_double(w, each, NULL, r->batch_rate[i], 4);
}

static void add_interception(JsonWriter *w, json_object *to, const PhaseResult *r) {
        json_object *o = json_writer_add(w, to, "interception", json_object_new_object());

        for (unsigned role = 0; role < _ROLE_MAX; role++) {
                json_object *of_role = json_writer_add(w, o, role_to_string((Role) role), json_object_new_object());
                const Interception *c = r->interception + role;

                json_writer_add_uint(w, of_role, "tasks", c->tasks);
                json_writer_add_uint(w, of_role, "launches", c->launches);
                json_writer_add_uint(w, of_role, "seen", c->seen);
                json_writer_add_uint(w, of_role, "tracked", c->tracked);
                json_writer_add_uint(w, of_role, "waited", c->waited);
                json_writer_add_double(w, of_role, "waited_us", (double) c->waited_ns / 1e3, 1);
                json_writer_add_uint(w, of_role, "lease_expired", c->expired);
        }
}

static void add_phases(JsonWriter *w, json_object *to, const Outcome *o) {
        json_object *phases = json_writer_add(w, to, "phases", json_object_new_array());

        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;

                if (!r->valid)
                        continue;
                json_object *phase = json_writer_add(w, phases, NULL, json_object_new_object());
                json_writer_add_string(w, phase, "phase", phase_kind_to_string((PhaseKind) k));
                add_latency(w, phase, r);
                add_batch(w, phase, r);
                add_interception(w, phase, r);
        }
}

static void add_ratios(JsonWriter *w, json_object *to, const Outcome *o) {
        json_object *ratios = json_writer_add(w, to, "ratios", json_object_new_object());

        json_writer_add_double(w, ratios, "shared_p50", outcome_latency_ratio(o, PHASE_SHARED, 50), 4);
        json_writer_add_double(w, ratios, "shared_p99", outcome_latency_ratio(o, PHASE_SHARED, 99), 4);
        json_writer_add_double(w, ratios, "xsched_p50", outcome_latency_ratio(o, PHASE_XSCHED, 50), 4);
        json_writer_add_double(w, ratios, "xsched_p99", outcome_latency_ratio(o, PHASE_XSCHED, 99), 4);
        json_writer_add_double(w, ratios, "batch", outcome_batch_ratio(o), 4);
}

int report_json(const Outcome *o, FILE *f) {
        const Calibration *c = o->calibration;
        json_object *all = json_object_new_object();
        JsonWriter w = {0};

        json_writer_add_string(&w, all, "version", XSCHED_VERSION);
        json_writer_add_string(&w, all, "device", c->device);
        json_writer_add_string(&w, all, "driver", c->driver);
        json_writer_add(&w, all, "gpu", json_object_new_boolean(c->gpu));
        json_writer_add_int(&w, all, "cpu", c->cpu);
        json_writer_add_uint(&w, all, "rounds", c->rounds);
        add_usec(&w, all, "kernel_us", c->kernel_ns);
        add_settings(&w, all, o->options);
        add_phases(&w, all, o);
        add_ratios(&w, all, o);
        return json_writer_end(&w, all, f);
}
