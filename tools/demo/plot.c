/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The plot: an SVG file of our own making, so that no plotting program is needed
 *
 * Above, each task of the latency job as a dot, one panel a phase, all on one scale; below, the same latencies by
 * percentile, and what the batch jobs got done. There is one set of colours for light and one for dark surroundings;
 * the file paints its own background and needs nothing from outside.
 */

#include <math.h>

#include "common/picture.h"
#include "plot.h"
#include "tools/demo/report.h"

#define WIDTH  960.0
#define HEIGHT 676.0
#define LEFT   64.0 /* room for the labels of the vertical axis */
#define RIGHT  24.0

typedef struct Scale {
        double low, high; /* values */
        double from, to;  /* where they lie in the picture */
        bool logarithmic;
} Scale;

typedef struct Box {
        double x, y, w, h;
} Box;

static double scale_at(const Scale *s, double v) {
        double t = s->logarithmic ? log(v / s->low) / log(s->high / s->low) : (v - s->low) / (s->high - s->low);

        return s->from + CLAMP(t, 0.0, 1.0) * (s->to - s->from);
}

/* The series of round numbers behind `lead`: 1, 2, 5, 10, ... or, where a scale shows less than a decade, a finer
 * one. */
static double lead_next(double lead, bool fine) {
        static const double coarse_leads[] = {1, 2, 5, 10}, fine_leads[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};
        const double *leads = fine ? fine_leads : coarse_leads;
        double magnitude = pow(10, floor(log10(lead) + 1e-9));

        while (*leads * magnitude < lead * 1.001)
                leads++;
        return *leads * magnitude;
}

/* The smallest step of the series 1, 2, 5 that makes at most n ticks. */
static double tick_step(double span, unsigned n) {
        double step = pow(10, floor(log10(span / 1000)));

        while (span / step > n)
                step = lead_next(step, false);
        return step;
}

static void text(FILE *f, double x, double y, const char *class, const char *s) {
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
        for (; *s; s++)
                if (*s == '&' || *s == '<' || *s == '>')
                        fprintf(f, "&#%d;", *s);
                else
                        fputc(*s, f);
        fputs("</text>\n", f);
}

static void line(FILE *f, double x1, double y1, double x2, double y2, const char *class) {
        fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}

/* Three significant digits, without an exponent. */
static const char *format_ms(double ms, char ret[static 32]) {
        (void) snprintf(ret, 32, ms >= 100 ? "%.0f" : ms >= 10 ? "%.1f" : "%.2f", ms);
        return ret;
}

/* Writes plain rules without CSS variables, which viewers other than browsers do not know. */
static void palette(FILE *f, const char *background, const char *text_color, const char *dim, const char *grid,
                const char *deadline) {
        static const char *const phases[_PHASE_MAX] = {
                        [PHASE_ALONE] = PICTURE_SERIES_2,
                        [PHASE_SHARED] = PICTURE_SERIES_3,
                        [PHASE_XSCHED] = PICTURE_SERIES_0,
        };

        fprintf(f,
                        ".bg{fill:%s}.title,.head,.name,.value,.values{fill:%s}"
                        ".sub,.tickx,.ticky,.axis{fill:%s}.grid{stroke:%s}"
                        ".frame{stroke:%s}.deadline{stroke:%s}.deadlinelabel{fill:%s}\n",
                        background, text_color, dim, grid, dim, deadline, deadline);
        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const char *name = phase_kind_to_string((PhaseKind) k);

                fprintf(f, ".%s .dots,.%s .curve,.%s .p99{stroke:%s}.%s .bar{fill:%s}\n", name, name, name, phases[k],
                                name, phases[k]);
        }
}

static void head(FILE *f) {
        fprintf(f,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
                        "height=\"%.0f\" role=\"img\" font-family=\"" PICTURE_FONT "\" font-size=\"12\">\n",
                        WIDTH, HEIGHT, WIDTH, HEIGHT);
        fputs("<style>\n"
              ".title{font-size:18px;font-weight:600}.sub{font-size:12.5px}"
              ".head,.name{font-size:13.5px;font-weight:600}\n"
              ".tickx,.axis{text-anchor:middle}.ticky,.values{text-anchor:end}\n"
              ".grid,.frame,.p99,.curve,.dots,.deadline{fill:none}.frame{stroke-opacity:.5}\n"
              ".deadline{stroke-dasharray:5 4}.curve{stroke-width:2;stroke-linejoin:round}.p99{stroke-width:1.4}\n"
              ".dots{stroke-width:3.2;stroke-linecap:round;stroke-opacity:.6}.bar{fill-opacity:.85}\n",
                        f);
        palette(f, PICTURE_BACKGROUND, PICTURE_TEXT, PICTURE_DIM, PICTURE_GRID, PICTURE_LIMIT);
        fputs("@media (prefers-color-scheme:dark){\n", f);
        palette(f, PICTURE_DARK_BACKGROUND, PICTURE_DARK_TEXT, PICTURE_DARK_DIM, PICTURE_DARK_GRID, PICTURE_DARK_LIMIT);
        fputs("}\n</style>\n", f);
        fprintf(f, "<rect width=\"%.0f\" height=\"%.0f\" class=\"bg\"/>\n", WIDTH, HEIGHT);
}

static void title(const Outcome *o, FILE *f) {
        const Options *options = o->options;
        const Calibration *c = o->calibration;
        char s[512];

        (void) snprintf(s, sizeof(s), "A latency-critical job beside %u batch job%s on one device", options->n_low,
                        options->n_low == 1 ? "" : "s");
        text(f, 24, 34, "title", s);
        (void) snprintf(s, sizeof(s), "%s. Kernels of %.3g ms.", c->device, (double) c->kernel_ns / 1e6);
        text(f, 24, 56, "sub", s);
        (void) snprintf(s, sizeof(s),
                        "Latency job: a task of %u kernels every %.4g ms. Batch jobs: tasks of %u kernels, "
                        "one after the "
                        "other.",
                        options->n_kernels, (double) options->period_ns / 1e6, options->n_batch_kernels);
        text(f, 24, 74, "sub", s);
}

/* One scale for all panels: what they are for is comparison. */
static Scale latency_scale(const Outcome *o) {
        double low = (double) o->options->deadline_ns, high = low;

        for (unsigned k = 0; k < _PHASE_MAX; k++)
                for (size_t i = 0; i < o->phases[k].latency.n; i++) {
                        low = MIN(low, (double) o->phases[k].latency.items[i].ns);
                        high = MAX(high, (double) o->phases[k].latency.items[i].ns);
                }
        return (Scale){.low = low / 1e6 / 1.25, .high = high / 1e6 * 1.35, .logarithmic = true};
}

static void latency_axis(const Scale *y, const Box *b, bool labels, FILE *f) {
        bool narrow = y->high / y->low < 8;
        double lead = 1, magnitude = pow(10, floor(log10(y->low)));

        for (; lead * magnitude <= y->high; lead = lead_next(lead, narrow)) {
                double v = lead * magnitude;
                char s[32];

                if (v < y->low)
                        continue;
                line(f, b->x, scale_at(y, v), b->x + b->w, scale_at(y, v), "grid");
                (void) snprintf(s, sizeof(s), "%g", v);
                if (labels)
                        text(f, b->x - 8, scale_at(y, v) + 4, "ticky", s);
        }
        if (labels) {
                double middle = b->y + b->h / 2, x = b->x - 46;

                fprintf(f,
                                "<text transform=\"translate(%.1f %.1f) rotate(-90)\" class=\"axis\">task "
                                "latency, ms</text>\n",
                                x, middle);
        }
}

static void frame(const Box *b, FILE *f) {
        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n", b->x, b->y, b->w,
                        b->h);
}

static void time_axis(const Scale *x, const Box *b, FILE *f) {
        double step = tick_step(x->high, 6);

        for (unsigned i = 0; step * i <= x->high * 1.001; i++) {
                double v = step * i;
                char s[32];

                (void) snprintf(s, sizeof(s), "%g", v);
                line(f, scale_at(x, v), b->y + b->h, scale_at(x, v), b->y + b->h + 4, "frame");
                text(f, scale_at(x, v), b->y + b->h + 18, "tickx", s);
        }
        text(f, b->x + b->w / 2, b->y + b->h + 35, "axis", "time, s");
}

static void phase_panel(const Outcome *o, const PhaseResult *r, Box b, Scale y, bool first, FILE *f) {
        Scale x = {.low = 0, .high = (double) r->window_ns / 1e9, .from = b.x + 4, .to = b.x + b.w - 4};
        Summary sum = samples_summary(&r->latency);
        double p99 = (double) sum.p99_ns / 1e6, deadline = (double) o->options->deadline_ns / 1e6;
        char value[32], s[96];

        y.from = b.y + b.h;
        y.to = b.y;
        latency_axis(&y, &b, first, f);
        time_axis(&x, &b, f);

        line(f, b.x, scale_at(&y, deadline), b.x + b.w, scale_at(&y, deadline), "deadline");
        if (first) {
                /* The label is on the side of its line that is away from the other line. */
                double above = scale_at(&y, deadline) - scale_at(&y, p99);

                text(f, b.x + 6, scale_at(&y, deadline) + (above > 0 && above < 18 ? 14 : -5), "deadlinelabel",
                                "deadline");
        }

        fprintf(f, "<g class=\"%s\"><path class=\"dots\" d=\"", phase_kind_to_string(r->kind));
        for (size_t i = 0; i < r->latency.n; i++)
                fprintf(f, "M%.1f %.1fh0", scale_at(&x, (double) r->latency.items[i].at_ns / 1e9),
                                scale_at(&y, (double) r->latency.items[i].ns / 1e6));
        fputs("\"/>\n", f);
        line(f, b.x, scale_at(&y, p99), b.x + b.w, scale_at(&y, p99), "p99");
        text(f, b.x, b.y - 10, "name", phase_kind_title(r->kind));
        fputs("</g>\n", f);

        (void) snprintf(s, sizeof(s), "p99 %s ms", format_ms(p99, value));
        text(f, b.x + b.w, b.y - 10, "values", s);
        frame(&b, f);
}

/* 0, 1, 2, 3 for the percentiles 0, 90, 99, 99.9: what matters of a tail is how rare it is. */
static double rarity(double p) {
        return -log10(1 - p);
}

static void percentile_axis(const Scale *x, const Box *b, FILE *f) {
        static const struct {
                double p;
                const char *label;
        } ticks[] = {{0, "0"}, {.5, "50"}, {.9, "90"}, {.99, "99"}, {.999, "99.9"}, {.9999, "99.99"}};

        for (size_t i = 0; i < ELEMENTSOF(ticks); i++)
                if (rarity(ticks[i].p) <= x->high) {
                        line(f, scale_at(x, rarity(ticks[i].p)), b->y, scale_at(x, rarity(ticks[i].p)), b->y + b->h,
                                        "grid");
                        text(f, scale_at(x, rarity(ticks[i].p)), b->y + b->h + 18, "tickx", ticks[i].label);
                }
        text(f, b->x + b->w / 2, b->y + b->h + 35, "axis", "percentile of tasks");
}

static void percentile_curve(const PhaseResult *r, const Scale *x, const Scale *y, FILE *f) {
        _cleanup_free_ uint64_t *sorted = samples_sorted(&r->latency);
        double last = -1;

        if (!sorted)
                return;
        fprintf(f, "<g class=\"%s\"><path class=\"curve\" d=\"", phase_kind_to_string(r->kind));
        for (size_t i = 0; i < r->latency.n; i++) {
                double at = scale_at(x, rarity(((double) i + 0.5) / (double) r->latency.n));

                if (last >= 0 && at - last < 0.4 && i + 1 < r->latency.n)
                        continue;
                fprintf(f, "%s%.1f %.1f", last < 0 ? "M" : "L", at, scale_at(y, (double) sorted[i] / 1e6));
                last = at;
        }
        fputs("\"/></g>\n", f);
}

static void percentile_panel(const Outcome *o, Box b, Scale y, FILE *f) {
        size_t most = 2;
        double legend = b.y + 20;

        for (unsigned k = 0; k < _PHASE_MAX; k++)
                most = MAX(most, o->phases[k].latency.n);
        Scale x = {.low = 0, .high = log10(2.0 * (double) most), .from = b.x, .to = b.x + b.w - 6};

        y.from = b.y + b.h;
        y.to = b.y;
        text(f, b.x, b.y - 10, "head", "Latency by percentile");
        percentile_axis(&x, &b, f);
        latency_axis(&y, &b, true, f);
        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;

                if (!r->valid)
                        continue;
                percentile_curve(r, &x, &y, f);
                fprintf(f, "<g class=\"%s\">", phase_kind_to_string(r->kind));
                line(f, b.x + 12, legend - 4, b.x + 34, legend - 4, "curve");
                fputs("</g>\n", f);
                text(f, b.x + 40, legend, "value", phase_kind_title(r->kind));
                legend += 18;
        }
        frame(&b, f);
}

static void batch_panel(const Outcome *o, Box b, FILE *f) {
        double most = 0, y = b.y + 16, room = b.w - 8;
        const double bar_height = 26;

        for (unsigned k = 0; k < _PHASE_MAX; k++)
                most = MAX(most, o->phases[k].batch_total);
        text(f, b.x, b.y - 10, "head", "Batch jobs, tasks a second in total");
        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                const PhaseResult *r = o->phases + k;
                char s[96], relative[48] = "";

                if (!r->valid || r->n_batch == 0)
                        continue;
                if (r->kind == PHASE_XSCHED && outcome_batch_ratio(o) > 0)
                        (void) snprintf(relative, sizeof(relative), " (%.1f %% of unscheduled)",
                                        100 * outcome_batch_ratio(o));
                (void) snprintf(s, sizeof(s), "%s: %.2f%s", phase_kind_title(r->kind), r->batch_total, relative);
                text(f, b.x, y, "value", s);
                fprintf(f,
                                "<g class=\"%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                                "class=\"bar\"/></g>\n",
                                phase_kind_to_string(r->kind), b.x, y + 8, room * r->batch_total / MAX(most, 1e-9),
                                bar_height);
                y += bar_height + 44;
        }
}

int report_plot(const Outcome *o, FILE *f) {
        const double gap = 22, upper = 118, lower = 424, panel_height = 230;
        unsigned n = 0, i = 0;
        Scale y = latency_scale(o);
        bool batch = false;

        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                n += o->phases[k].valid;
                batch = batch || o->phases[k].n_batch > 0;
        }
        double width = (WIDTH - LEFT - RIGHT - gap * (n - 1)) / n, wide = WIDTH - LEFT - RIGHT;

        head(f);
        title(o, f);
        for (unsigned k = 0; k < _PHASE_MAX; k++)
                if (o->phases[k].valid) {
                        phase_panel(o, o->phases + k, (Box){LEFT + (width + gap) * i, upper, width, panel_height}, y,
                                        i == 0, f);
                        i++;
                }
        percentile_panel(o, (Box){LEFT, lower, batch ? wide * 0.56 : wide, 196}, y, f);
        if (batch)
                batch_panel(o, (Box){LEFT + wide * 0.56 + 56, lower, wide * 0.44 - 56, 196}, f);
        fputs("</svg>\n", f);
        return ferror(f) ? -EIO : 0;
}
