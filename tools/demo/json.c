/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Results for machines: one JSON object; times in microseconds, rates per second
 */

#include <inttypes.h>
#include <json-c/json.h>

#include "config.h"
#include "json.h"
#include "tools/demo/report.h"

/* What is added to an object or an array, and the first error on the way: asked once, at the end. */
typedef struct Writer {
        int error;
} Writer;

/* Adds the item, and takes ownership of it; NULL: it could not be made. `key` is NULL in an array. Returns the item
 * while nothing has failed. */
static json_object *add(Writer *w, json_object *to, const char *key, json_object *item) {
        if (!item || !to) {
                w->error = -ENOMEM;
                json_object_put(item);
                return NULL;
        }
        if ((key ? json_object_object_add(to, key, item) : json_object_array_add(to, item)) < 0) {
                w->error = -ENOMEM;
                json_object_put(item);
                return NULL;
        }
        return item;
}

static void add_string(Writer *w, json_object *to, const char *key, const char *s) {
        add(w, to, key, json_object_new_string(strempty(s)));
}

static void add_uint(Writer *w, json_object *to, const char *key, uint64_t v) {
        add(w, to, key, json_object_new_uint64(v));
}

static void add_int(Writer *w, json_object *to, const char *key, int v) {
        add(w, to, key, json_object_new_int(v));
}

/* Prints so many decimals; json-c would print all that a double has. */
static void add_double(Writer *w, json_object *to, const char *key, double v, int digits) {
        char text[64];

        (void) snprintf(text, sizeof(text), "%.*f", digits, v);
        add(w, to, key, json_object_new_double_s(v, text));
}

static void add_usec(Writer *w, json_object *to, const char *key, uint64_t ns) {
        add_double(w, to, key, (double) ns / 1e3, 3);
}

static void add_settings(Writer *w, json_object *to, const Options *options) {
        json_object *o = add(w, to, "settings", json_object_new_object());

        add_uint(w, o, "low", options->n_low);
        add_double(w, o, "duration_us", (double) options->duration_ns / 1e3, 0);
        add_uint(w, o, "kernels", options->n_kernels);
        add_uint(w, o, "batch_kernels", options->n_batch_kernels);
        add_usec(w, o, "period_us", options->period_ns);
        add_usec(w, o, "deadline_us", options->deadline_ns);
        add_int(w, o, "high_priority", options->high_priority);
        add_int(w, o, "low_priority", options->low_priority);
        add_string(w, o, "policy", options->policy);
        json_object *settings = add(w, o, "xschedd", json_object_new_array());
        for (size_t i = 0; i < options->n_settings; i++)
                add_string(w, settings, NULL, options->settings[i]);
}

static void add_latency(Writer *w, json_object *to, const PhaseResult *r) {
        json_object *o = add(w, to, "latency", json_object_new_object());
        Summary s = samples_summary(&r->latency);

        add_uint(w, o, "tasks", s.n);
        add_usec(w, o, "p50_us", s.p50_ns);
        add_usec(w, o, "p90_us", s.p90_ns);
        add_usec(w, o, "p99_us", s.p99_ns);
        add_usec(w, o, "max_us", s.max_ns);
        add_usec(w, o, "mean_us", s.mean_ns);
        add_uint(w, o, "missed", r->n_missed);
        add_uint(w, o, "skipped", r->n_skipped);
        json_object *samples = add(w, o, "samples_us", json_object_new_array());
        for (size_t i = 0; i < r->latency.n; i++)
                add_double(w, samples, NULL, (double) r->latency.items[i].ns / 1e3, 1);
}

static void add_batch(Writer *w, json_object *to, const PhaseResult *r) {
        json_object *o = add(w, to, "batch", json_object_new_object());

        add_double(w, o, "tasks_per_s", r->batch_total, 4);
        json_object *each = add(w, o, "each", json_object_new_array());
        for (unsigned i = 0; i < r->n_batch; i++)
                add_double(w, each, NULL, r->batch_rate[i], 4);
}

static void add_interception(Writer *w, json_object *to, const PhaseResult *r) {
        json_object *o = add(w, to, "interception", json_object_new_object());

        for (unsigned role = 0; role < _ROLE_MAX; role++) {
                json_object *of_role = add(w, o, role_to_string((Role) role), json_object_new_object());
                const Interception *c = r->interception + role;

                add_uint(w, of_role, "tasks", c->tasks);
                add_uint(w, of_role, "launches", c->launches);
                add_uint(w, of_role, "seen", c->seen);
                add_uint(w, of_role, "tracked", c->tracked);
                add_uint(w, of_role, "waited", c->waited);
                add_double(w, of_role, "waited_us", (double) c->waited_ns / 1e3, 1);
                add_uint(w, of_role, "lease_expired", c->expired);
        }
}

static void add_phases(Writer *w, json_object *to, const Outcome *o) {
        json_object *phases = add(w, to, "phases", json_object_new_array());

        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;

                if (!r->valid)
                        continue;
                json_object *phase = add(w, phases, NULL, json_object_new_object());
                add_string(w, phase, "phase", phase_kind_to_string((PhaseKind) k));
                add_latency(w, phase, r);
                add_batch(w, phase, r);
                add_interception(w, phase, r);
        }
}

static void add_ratios(Writer *w, json_object *to, const Outcome *o) {
        json_object *ratios = add(w, to, "ratios", json_object_new_object());

        add_double(w, ratios, "shared_p50", outcome_latency_ratio(o, PHASE_SHARED, 50), 4);
        add_double(w, ratios, "shared_p99", outcome_latency_ratio(o, PHASE_SHARED, 99), 4);
        add_double(w, ratios, "xsched_p50", outcome_latency_ratio(o, PHASE_XSCHED, 50), 4);
        add_double(w, ratios, "xsched_p99", outcome_latency_ratio(o, PHASE_XSCHED, 99), 4);
        add_double(w, ratios, "batch", outcome_batch_ratio(o), 4);
}

int report_json(const Outcome *o, FILE *f) {
        const Calibration *c = o->calibration;
        json_object *all = json_object_new_object();
        Writer w = {0};

        add_string(&w, all, "version", XSCHED_VERSION);
        add_string(&w, all, "device", c->device);
        add_string(&w, all, "driver", c->driver);
        add(&w, all, "gpu", json_object_new_boolean(c->gpu));
        add_int(&w, all, "cpu", c->cpu);
        add_uint(&w, all, "rounds", c->rounds);
        add_usec(&w, all, "kernel_us", c->kernel_ns);
        add_settings(&w, all, o->options);
        add_phases(&w, all, o);
        add_ratios(&w, all, o);
        if (w.error >= 0) {
                const char *text = json_object_to_json_string_ext(
                                all, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!text || fprintf(f, "%s\n", text) < 0)
                        w.error = text ? -EIO : -ENOMEM;
        }
        json_object_put(all);
        return w.error;
}
