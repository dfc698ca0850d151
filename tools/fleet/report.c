/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prints and checks the results
 */

#include <inttypes.h>
#include <json-c/json.h>

#include "tools/fleet/report.h"

static const char *const gang_names[GANGS_MAX] = {"one GPU", "one host", "over hosts"};

static double mean(double sum, uint64_t n) {
        return n > 0 ? sum / (double) n : 0;
}

static double ms(uint64_t ns) {
        return (double) ns / NSEC_PER_MSEC;
}

/* The busy part of the GPUs' time while jobs were submitted. */
static double utilisation(const FleetConfig *c, const FleetResult *r) {
        return r->span_ns > 0 ? r->busy_ns / ((double) r->span_ns * c->n_hosts * c->gpus_per_host) : 0;
}

static double share_error(const FleetResult *r) {
        return r->share_ns > 0 ? r->share_off / r->share_ns : 0;
}

static double gang_cost(const FleetResult *r, unsigned i) {
        return r->gangs[i].running_ns > 0 ? r->gangs[i].waited_ns / r->gangs[i].running_ns : 0;
}

bool report_check_behind(const FleetConfig *config, const FleetResult *r, const Trace *t) {
        const char *name = discipline_to_string(config->discipline);
        uint64_t bound = fleet_bound(config, t);
        bool ok = true;

        if (r->behind.n == 0) {
                fprintf(stderr, "%s: no request met training on its GPU: there is nothing to check\n", name);
                return false;
        }
        if (r->low.max > bound) {
                fprintf(stderr, "%s: a service waited for training for %.3f ms, more than %.3f ms\n", name,
                                ms(r->low.max), ms(bound));
                ok = false;
        }
        if (r->n_behind_too_long > 0) {
                fprintf(stderr,
                                "%s: %" PRIu64 " of %" PRIu64 " requests waited for training in pieces for more than "
                                "%.3f ms, at most %.3f ms\n",
                                name, r->n_behind_too_long, r->behind.n, ms(bound), ms(r->behind.max));
                ok = false;
        }
        return ok;
}

bool report_check(const FleetConfig *config, const FleetResult *r, const Trace *t) {
        const char *name = discipline_to_string(config->discipline);
        bool ok = true;

        if (r->n_jobs + r->n_too_large != t->n || r->n_jobs == 0) {
                fprintf(stderr, "%s: %zu of %zu jobs have ended\n", name, r->n_jobs, t->n - r->n_too_large);
                ok = false;
        }
        if (r->done_ns != r->asked_ns) {
                fprintf(stderr, "%s: training had %" PRIu64 " ns of work and %" PRIu64 " ns of a GPU\n", name,
                                r->asked_ns, r->done_ns);
                ok = false;
        }
        return ok;
}

void report_text(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran) {
        uint64_t span_ns = 0;

        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++)
                span_ns = MAX(span_ns, r[i].span_ns);
        fprintf(f, "%zu jobs on %u hosts of %u GPUs, submitted within %.0f s; %zu left out\n\n", t->n, config->n_hosts,
                        config->gpus_per_host, (double) span_ns / NSEC_PER_SEC, t->n_left_out);
        fprintf(f, "%-13s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "busy", "request", "request", "behind",
                        "slowdown", "slowdown", "placed", "off", "gangs");
        fprintf(f, "%-13s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "%", "p50 ms", "p99 ms", "max ms", "heavy",
                        "light", "p99 s", "shares %", "wait %");
        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++) {
                if (!ran[i])
                        continue;
                const FleetResult *x = r + i;
                uint64_t placed = 0;

                for (unsigned c = 0; c < _CLASS_MAX; c++)
                        placed = MAX(placed, histogram_percentile(&x->classes[c].waits, 99));
                fprintf(f, "%-13s %9.1f %9.2f %9.2f %9.2f %9.2f %9.2f %9.1f %9.1f %9.1f\n", discipline_to_string(i),
                                100 * utilisation(config, x), ms(histogram_percentile(&x->requests, 50)),
                                ms(histogram_percentile(&x->requests, 99)), ms(x->behind.max),
                                mean(x->classes[CLASS_HEAVY].slowdown, x->classes[CLASS_HEAVY].n),
                                mean(x->classes[CLASS_LIGHT].slowdown, x->classes[CLASS_LIGHT].n),
                                (double) placed / NSEC_PER_SEC, 100 * share_error(x), 100 * gang_cost(x, 2));
        }
}

/* --- JSON: json-c fails only where memory runs out --- */

static void add(json_object *o, const char *key, double v) {
        (void) json_object_object_add(o, key, json_object_new_double(v));
}

static void add_number(json_object *o, const char *key, uint64_t v) {
        (void) json_object_object_add(o, key, json_object_new_uint64(v));
}

static json_object *histogram_json(const Histogram *h) {
        json_object *o = json_object_new_object();

        add_number(o, "n", h->n);
        add(o, "mean_ms", histogram_mean(h) / NSEC_PER_MSEC);
        add(o, "p50_ms", ms(histogram_percentile(h, 50)));
        add(o, "p99_ms", ms(histogram_percentile(h, 99)));
        add(o, "max_ms", ms(h->max));
        return o;
}

static json_object *classes_json(const FleetResult *r) {
        json_object *all = json_object_new_object();

        for (unsigned i = 0; i < _CLASS_MAX; i++) {
                json_object *o = json_object_new_object();

                add_number(o, "n", r->classes[i].n);
                add(o, "slowdown", mean(r->classes[i].slowdown, r->classes[i].n));
                add(o, "slowdown_max", r->classes[i].slowdown_max);
                (void) json_object_object_add(o, "placed", histogram_json(&r->classes[i].waits));
                (void) json_object_object_add(all, job_class_to_string(i), o);
        }
        return all;
}

static json_object *gangs_json(const FleetResult *r) {
        json_object *all = json_object_new_object();

        for (unsigned i = 0; i < GANGS_MAX; i++) {
                json_object *o = json_object_new_object();

                add_number(o, "n", r->gangs[i].n);
                add(o, "slowdown", mean(r->gangs[i].slowdown, r->gangs[i].n));
                add(o, "waited", gang_cost(r, i));
                (void) json_object_object_add(all, gang_names[i], o);
        }
        return all;
}

static json_object *result_json(const FleetConfig *c, const FleetResult *r, double took_s) {
        json_object *o = json_object_new_object();

        add(o, "utilisation", utilisation(c, r));
        (void) json_object_object_add(o, "requests", histogram_json(&r->requests));
        (void) json_object_object_add(o, "behind_training", histogram_json(&r->low));
        (void) json_object_object_add(o, "request_behind_training", histogram_json(&r->behind));
        (void) json_object_object_add(o, "classes", classes_json(r));
        (void) json_object_object_add(o, "gangs", gangs_json(r));
        add(o, "share_error", share_error(r));
        add(o, "share_error_max", r->share_worst);
        add_number(o, "share_periods", r->n_epochs);
        add(o, "simulated_s", (double) r->end_ns / NSEC_PER_SEC);
        add(o, "took_s", took_s);
        add_number(o, "events", r->n_events);
        add_number(o, "jobs", r->n_jobs);
        add_number(o, "too_large", r->n_too_large);
        return o;
}

int report_json(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran,
                const double *took_s) {
        json_object *o = json_object_new_object(), *all = json_object_new_object();
        const char *text;

        add_number(o, "hosts", config->n_hosts);
        add_number(o, "gpus_per_host", config->gpus_per_host);
        add_number(o, "slots", config->slots);
        add_number(o, "jobs", t->n);
        add_number(o, "left_out", t->n_left_out);
        add(o, "bound_ms", ms(fleet_bound(config, t)));
        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++)
                if (ran[i]) {
                        add(o, "span_s", (double) r[i].span_ns / NSEC_PER_SEC);
                        (void) json_object_object_add(
                                        all, discipline_to_string(i), result_json(config, r + i, took_s[i]));
                }
        (void) json_object_object_add(o, "disciplines", all);
        text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY);
        int k = text && fprintf(f, "%s\n", text) >= 0 ? 0 : -EIO;
        json_object_put(o);
        return k;
}
