/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table, and a sparkline a phase
 *
 * A sparkline shows the longest task of each slice of the phase, on one logarithmic scale for all phases.
 */

#include <inttypes.h>
#include <langinfo.h>
#include <math.h>

#include "tools/demo/report.h"
#include "tools/demo/sim.h"

#define SPARK_WIDTH 60U

static double phase_percentile(const PhaseResult *r, double percent) {
        _cleanup_free_ uint64_t *sorted = r->valid ? samples_sorted(&r->latency) : NULL;

        return sorted ? (double) percentile(sorted, r->latency.n, percent) : 0;
}

double outcome_latency_ratio(const Outcome *o, PhaseKind k, double percent) {
        double alone = phase_percentile(o->phases + PHASE_ALONE, percent);

        return alone > 0 ? phase_percentile(o->phases + k, percent) / alone : 0;
}

double outcome_batch_ratio(const Outcome *o) {
        const PhaseResult *shared = o->phases + PHASE_SHARED, *xsched = o->phases + PHASE_XSCHED;

        return shared->valid && xsched->valid && shared->batch_total > 0 ? xsched->batch_total / shared->batch_total
                                                                         : 0;
}

/* The columns of one terminal line cannot be counted in bytes, so each glyph is a string. */
static const char *spark_glyph(double level) {
        static const char *const unicode[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
        static const char *const ascii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
        size_t i = (size_t) CLAMP(level * 8.0, 0.0, 7.0);

        return streq(nl_langinfo(CODESET), "UTF-8") ? unicode[i] : ascii[i];
}

static void print_sparkline(const PhaseResult *r, double least, double most, FILE *f) {
        size_t width = MIN(r->latency.n, (size_t) SPARK_WIDTH);
        uint64_t longest[SPARK_WIDTH] = {};

        for (size_t i = 0; i < r->latency.n; i++) {
                const Sample *s = r->latency.items + i;
                size_t slot = MIN((size_t) (s->at_ns * SPARK_WIDTH / r->window_ns), (size_t) SPARK_WIDTH - 1);

                longest[slot] = MAX(longest[slot], s->ns);
        }
        for (size_t i = 0; i < width; i++)
                if (longest[i] == 0)
                        fputc(' ', f);
                else
                        fputs(spark_glyph(log((double) longest[i] / least) / log(most / least)), f);
}

static void print_sparklines(const Outcome *o, FILE *f) {
        double least = INFINITY, most = 0;

        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;

                for (size_t i = 0; r->valid && i < r->latency.n; i++) {
                        least = MIN(least, (double) r->latency.items[i].ns);
                        most = MAX(most, (double) r->latency.items[i].ns);
                }
        }
        if (!(most > least))
                return;

        fprintf(f, "\nLatency over time, from %.2f to %.2f ms, logarithmic:\n", least / 1e6, most / 1e6);
        for (unsigned k = 0; k < _PHASE_MAX; k++)
                if (o->phases[k].valid) {
                        fprintf(f, "%-22s  ", phase_kind_title((PhaseKind) k));
                        print_sparkline(o->phases + k, least, most, f);
                        fputc('\n', f);
                }
}

static void print_row(const Outcome *o, const PhaseResult *r, FILE *f) {
        Summary s = samples_summary(&r->latency);
        char missed[32], relative[32] = "";

        (void) snprintf(missed, sizeof(missed), "%" PRIu64 "/%" PRIu64, r->n_missed, (uint64_t) s.n + r->n_skipped);
        fprintf(f, "%-22s %9.2f %9.2f %9.2f %11s", phase_kind_title(r->kind), (double) s.p50_ns / 1e6,
                        (double) s.p99_ns / 1e6, (double) s.max_ns / 1e6, missed);
        if (r->n_batch > 0) {
                if (r->kind == PHASE_XSCHED && outcome_batch_ratio(o) > 0)
                        (void) snprintf(relative, sizeof(relative), "%.1f %%", 100 * outcome_batch_ratio(o));
                fprintf(f, " %12.2f %12s", r->batch_total, relative);
        }
        fputc('\n', f);
}

static void print_conclusion(const Outcome *o, FILE *f) {
        double without = outcome_latency_ratio(o, PHASE_SHARED, 99), with = outcome_latency_ratio(o, PHASE_XSCHED, 99);

        if (without > 0 && with > 0)
                fprintf(f,
                                "\nThe latency job's p99 beside %u batch job%s: %.2f times that of alone with xsched, "
                                "%.2f times without.\n",
                                o->options->n_low, o->options->n_low == 1 ? "" : "s", with, without);
        else if (without > 0 || with > 0)
                fprintf(f, "\nThe latency job's p99 beside %u batch job%s: %.2f times that of alone.\n",
                                o->options->n_low, o->options->n_low == 1 ? "" : "s", MAX(without, with));
}

static void print_counters(const Outcome *o, FILE *f) {
        const PhaseResult *r = o->phases + PHASE_XSCHED;
        uint64_t n_tasks = 0, n_launches = 0;

        for (unsigned k = 0; k < _PHASE_MAX; k++)
                for (unsigned role = 0; role < _ROLE_MAX; role++) {
                        n_tasks += o->phases[k].interception[role].tasks;
                        n_launches += o->phases[k].interception[role].launches;
                }
        if (r->valid) {
                fputc('\n', f);
                for (unsigned role = 0; role < _ROLE_MAX; role++) {
                        const Interception *c = r->interception + role;

                        char reads[48] = "";
                        if (!sim_is_device(o->options->device))
                                (void) snprintf(reads, sizeof(reads), " and %" PRIu64 " reads", c->tasks);
                        if (c->tasks > 0)
                                fprintf(f,
                                                "Intercepted, %-7s: %" PRIu64 " commands of %" PRIu64
                                                " launches%s; %" PRIu64 " tracked, %" PRIu64
                                                " waited %.1f ms in all, %" PRIu64 " let through by the lease\n",
                                                role_to_string((Role) role), c->seen, c->launches, reads, c->tracked,
                                                c->waited, (double) c->waited_ns / 1e6, c->expired);
                }
        }
        fprintf(f,
                        "Checked: the results of all %" PRIu64 " tasks are right, each of %" PRIu64
                        " kernels ran once and in order.\n",
                        n_tasks, n_launches);
}

void report_table(const Outcome *o, FILE *f) {
        const Calibration *c = o->calibration;
        const Options *options = o->options;

        fprintf(f, "\n%s", c->device);
        if (c->cpu >= 0)
                fprintf(f, " (the device is CPU %d)", c->cpu);
        fprintf(f, ", kernels of %.3f ms.\n", (double) c->kernel_ns / 1e6);
        fprintf(f,
                        "Latency job: %u kernels every %.4g ms, deadline %.3g ms. %u batch job%s: %u kernels a task. "
                        "%.4g s a phase.\n\n",
                        options->n_kernels, (double) options->period_ns / 1e6, (double) options->deadline_ns / 1e6,
                        options->n_low, options->n_low == 1 ? "" : "s", options->n_batch_kernels,
                        (double) options->duration_ns / 1e9);

        fprintf(f, "%-22s %9s %9s %9s %11s %12s %12s\n", "", "p50 ms", "p99 ms", "max ms", "missed", "batch tasks/s",
                        "of unsched.");
        for (unsigned k = 0; k < _PHASE_MAX; k++)
                if (o->phases[k].valid)
                        print_row(o, o->phases + k, f);
        print_conclusion(o, f);
        print_sparklines(o, f);
        print_counters(o, f);
}
