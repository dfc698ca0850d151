/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Results for machines: one JSON object; times in microseconds, rates per second
 */

#include <inttypes.h>

#include "config.h"
#include "tools/demo/report.h"

/* Names come from drivers and are printable ASCII by now (work.c), settings from the command line. */
static void print_string(FILE *f, const char *s) {
        fputc('"', f);
        for (; *s; s++)
                if (*s == '"' || *s == '\\')
                        fprintf(f, "\\%c", *s);
                else if ((unsigned char) *s < 0x20)
                        fprintf(f, "\\u%04x", (unsigned) *s);
                else
                        fputc(*s, f);
        fputc('"', f);
}

static double usec(uint64_t ns) {
        return (double) ns / 1e3;
}

static void print_settings(const Outcome *o, FILE *f) {
        const Options *options = o->options;

        fprintf(f,
                        "  \"settings\": {\"low\": %u, \"duration_us\": %.0f, \"kernels\": %u, \"batch_kernels\": %u, "
                        "\"period_us\": %.3f, \"deadline_us\": %.3f, \"high_priority\": %d, \"low_priority\": %d, "
                        "\"policy\": ",
                        options->n_low, usec(options->duration_ns), options->n_kernels,
                        options->n_batch_kernels, usec(options->period_ns), usec(options->deadline_ns),
                        options->high_priority, options->low_priority);
        print_string(f, strempty(options->policy));
        fprintf(f, ", \"xschedd\": [");
        for (size_t i = 0; i < options->n_settings; i++) {
                fputs(i > 0 ? ", " : "", f);
                print_string(f, options->settings[i]);
        }
        fprintf(f, "]},\n");
}

static void print_latency(const PhaseResult *r, FILE *f) {
        Summary s = samples_summary(&r->latency);

        fprintf(f,
                        "     \"latency\": {\"tasks\": %zu, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, "
                        "\"max_us\": %.3f, \"mean_us\": %.3f, \"missed\": %" PRIu64 ", \"skipped\": %" PRIu64
                        ",\n"
                        "       \"samples_us\": [",
                        s.n, usec(s.p50_ns), usec(s.p90_ns), usec(s.p99_ns), usec(s.max_ns), usec(s.mean_ns),
                        r->n_missed, r->n_skipped);
        for (size_t i = 0; i < r->latency.n; i++)
                fprintf(f, "%s%.1f", i > 0 ? "," : "", usec(r->latency.items[i].ns));
        fprintf(f, "]},\n");
}

static void print_batch(const PhaseResult *r, FILE *f) {
        fprintf(f, "     \"batch\": {\"tasks_per_s\": %.4f, \"each\": [", r->batch_total);
        for (unsigned i = 0; i < r->n_batch; i++)
                fprintf(f, "%s%.4f", i > 0 ? ", " : "", r->batch_rate[i]);
        fprintf(f, "]},\n");
}

static void print_interception(const PhaseResult *r, FILE *f) {
        fprintf(f, "     \"interception\": {");
        for (unsigned role = 0; role < _ROLE_MAX; role++) {
                const Interception *c = r->interception + role;

                fprintf(f,
                                "%s\"%s\": {\"tasks\": %" PRIu64 ", \"launches\": %" PRIu64
                                ", \"seen\": %" PRIu64 ", \"tracked\": %" PRIu64 ", \"waited\": %" PRIu64
                                ", \"waited_us\": %.1f, \"lease_expired\": %" PRIu64 "}",
                                role > 0 ? ", " : "", role_to_string((Role) role), c->tasks, c->launches,
                                c->seen, c->tracked, c->waited, usec(c->waited_ns), c->expired);
        }
        fprintf(f, "}}");
}

int report_json(const Outcome *o, FILE *f) {
        const Calibration *c = o->calibration;
        bool first = true;

        fprintf(f, "{\n  \"version\": \"%s\",\n  \"device\": ", XSCHED_VERSION);
        print_string(f, c->device);
        fprintf(f, ",\n  \"driver\": ");
        print_string(f, c->driver);
        fprintf(f, ",\n  \"gpu\": %s,\n  \"cpu\": %d,\n  \"rounds\": %u,\n  \"kernel_us\": %.3f,\n",
                        c->gpu ? "true" : "false", c->cpu, c->rounds, usec(c->kernel_ns));
        print_settings(o, f);
        fprintf(f, "  \"phases\": [");
        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;

                if (!r->valid)
                        continue;
                fprintf(f, "%s\n    {\"phase\": \"%s\",\n", first ? "" : ",",
                                phase_kind_to_string((PhaseKind) k));
                print_latency(r, f);
                print_batch(r, f);
                print_interception(r, f);
                first = false;
        }
        fprintf(f, "\n  ],\n  \"ratios\": {");
        fprintf(f, "\"shared_p50\": %.4f, \"shared_p99\": %.4f, ",
                        outcome_latency_ratio(o, PHASE_SHARED, 50),
                        outcome_latency_ratio(o, PHASE_SHARED, 99));
        fprintf(f, "\"xsched_p50\": %.4f, \"xsched_p99\": %.4f, ",
                        outcome_latency_ratio(o, PHASE_XSCHED, 50),
                        outcome_latency_ratio(o, PHASE_XSCHED, 99));
        fprintf(f, "\"batch\": %.4f}\n}\n", outcome_batch_ratio(o));
        return ferror(f) ? -EIO : 0;
}
