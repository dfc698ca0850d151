/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * plot: as SVG
 *
 * Colours are those of common/picture.h, and areas have an edge. Areas that are no group, kept time and the parts of
 * waiting, have patterns. Numbers have one digit behind the point at most, so that a picture of many bins stays small.
 */

#include <inttypes.h>
#include <time.h>

#include "common/picture.h"
#include "common/time-util.h"
#include "common/utf8.h"
#include "plot-svg.h"
#include "tools/xschedctl/plot.h"

enum {
        WIDTH = 960,
        LEFT = 48,
        PLOT_WIDTH = 600,
        LEGEND_LEFT = LEFT + PLOT_WIDTH + 20,
        TOP = 40,
        USE_HEIGHT = 130,
        WAIT_HEIGHT = 44,
        WAIT_TOP = USE_HEIGHT + 24,
        AXIS_TOP = WAIT_TOP + WAIT_HEIGHT,
        PANEL_HEIGHT = AXIS_TOP + 56,
        LINE_HEIGHT = 15,
        SWATCH = 10,
        NAME_MAX_CHARS = 34,
};

static const char *const colors[PLOT_NAMED_MAX + 1] = {PICTURE_SERIES_0, PICTURE_SERIES_1, PICTURE_SERIES_2,
                PICTURE_SERIES_3, PICTURE_SERIES_4, PICTURE_SERIES_5, PICTURE_SERIES_6, PICTURE_SERIES_7};

static const struct {
        const char *name, *fill;
} waits[_PLOT_WAIT_MAX] = {
                [PLOT_WAIT_POLICY] = {"policy", "url(#policy)"},
                [PLOT_WAIT_DRAIN] = {"drain", "url(#drain)"},
                [PLOT_WAIT_SERVICE] = {"service", "url(#service)"},
};

/* --- text --- */

static size_t count_chars(const char *text) {
        size_t chars = 0, n;

        for (; *text; text += n, chars++)
                (void) utf8_next(text, &n);
        return chars;
}

/* Prints `length` characters from the character `from` on. */
static void print_chars(FILE *f, const char *text, size_t from, size_t length) {
        size_t n;

        for (size_t i = 0; *text && i < from + length; text += n, i++) {
                int32_t c = utf8_next(text, &n);

                if (i < from)
                        continue;
                if (utf8_is_harmful(c))
                        fputs("\xef\xbf\xbd", f);
                else if (c < 0x80 && strchr("<>&\"'", c))
                        fprintf(f, "&#%d;", c);
                else
                        fprintf(f, "%.*s", (int) n, text);
        }
}

/* Keeps more of the end, because paths differ there. */
static void print_text(FILE *f, const char *text, size_t max) {
        size_t chars = count_chars(text), head = max / 3;

        if (chars <= max) {
                print_chars(f, text, 0, chars);
                return;
        }
        print_chars(f, text, 0, head);
        fputs("\xe2\x80\xa6", f);
        print_chars(f, text, chars - (max - head - 1), max - head - 1);
}

/* Prints the number with as few digits as it needs. */
static void print_number(FILE *f, double v) {
        long tenths = (long) (v * 10 + 0.5);

        if (tenths % 10 == 0)
                fprintf(f, "%ld", tenths / 10);
        else
                fprintf(f, "%ld.%ld", tenths / 10, tenths % 10);
}

/* --- areas --- */

typedef double (*get_t)(const PlotCell *c, size_t which);

static double get_run(const PlotCell *c, size_t which) {
        return c->run[which];
}

static double get_kept(const PlotCell *c, size_t which) {
        return c->kept;
}

static double get_wait(const PlotCell *c, size_t which) {
        return c->waits[which];
}

/* Goes along the upper edge, and back along the lower one, with a corner only where the value changes. */
static void print_edge(FILE *f, const double *y, size_t n, bool back) {
        for (size_t k = 0; k < n; k++) {
                size_t i = back ? n - 1 - k : k;

                if (k > 0 && y[i] == y[back ? i + 1 : i - 1])
                        continue;
                fputc(k > 0 || back ? 'H' : 'M', f);
                print_number(f, LEFT + (double) (back ? i + 1 : i) * PLOT_WIDTH / (double) n);
                fputc(k > 0 || back ? 'V' : ' ', f);
                print_number(f, y[i]);
        }
        fputc('H', f);
        print_number(f, back ? LEFT : LEFT + PLOT_WIDTH);
}

typedef struct Stack {
        const Plot *plot;
        const PlotDevice *device;
        double *bottom, *top; /* of each bin, downwards */
        double scale;         /* height of 1 */
} Stack;

static double rounded(double v) {
        return (double) (long) (v * 10 + 0.5) / 10;
}

/* Prints one area on top of those before it. */
static void stack_print(Stack *s, FILE *f, get_t get, size_t which, const char *fill, const char *title) {
        bool any = false;

        for (size_t i = 0; i < s->plot->n_bins; i++) {
                s->top[i] = rounded(s->bottom[i] - get(s->device->bins + i, which) * s->scale);
                any = any || s->top[i] < s->bottom[i];
        }
        if (!any)
                return;
        fprintf(f, "<path class=\"a\" fill=\"%s\" d=\"", fill);
        print_edge(f, s->top, s->plot->n_bins, false);
        print_edge(f, s->bottom, s->plot->n_bins, true);
        fputs("Z\"><title>", f);
        print_text(f, title, SIZE_MAX);
        fputs("</title></path>\n", f);
        memcpy(s->bottom, s->top, s->plot->n_bins * sizeof(double));
}

static void stack_begin(Stack *s, double bottom, double scale) {
        s->scale = scale;
        for (size_t i = 0; i < s->plot->n_bins; i++)
                s->bottom[i] = bottom;
}

static double most_waiting(const PlotDevice *d, size_t n_bins) {
        double most = 0;

        for (size_t i = 0; i < n_bins; i++) {
                double sum = 0;
                for (size_t w = 0; w < _PLOT_WAIT_MAX; w++)
                        sum += d->bins[i].waits[w];
                most = MAX(most, sum);
        }
        return most;
}

/* --- axes --- */

static void print_y(FILE *f, double y, const char *text) {
        fprintf(f, "<path class=\"g\" d=\"M%d ", LEFT);
        print_number(f, y);
        fprintf(f, "h%d\"/><text class=\"r\" x=\"%d\" y=\"", PLOT_WIDTH, LEFT - 6);
        print_number(f, y + 4);
        fprintf(f, "\">%s</text>\n", text);
}

/* Chooses an interval that gives six to twelve ticks. */
static uint64_t tick_us(uint64_t span_us) {
        static const uint64_t seconds[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600};

        for (size_t i = 0; i < ELEMENTSOF(seconds); i++)
                if (span_us / (seconds[i] * 1000000) <= 8)
                        return seconds[i] * 1000000;
        return UINT64_C(86400) * 1000000;
}

static struct tm local_time(int64_t realtime_us) {
        time_t t = (time_t) (realtime_us / 1000000);
        struct tm tm = {};

        (void) localtime_r(&t, &tm);
        return tm;
}

/* Prints ticks at round times of the day. */
static void print_times(const Plot *p, FILE *f) {
        int64_t begin = (int64_t) p->begin_us + p->realtime_us, end = (int64_t) p->end_us + p->realtime_us;
        int64_t step = (int64_t) tick_us(p->end_us - p->begin_us);

        for (int64_t t = (begin + step - 1) / step * step; t <= end; t += step) {
                double x = LEFT + (double) (t - begin) * PLOT_WIDTH / (double) (end - begin);
                struct tm tm = local_time(t);

                fputs("<path class=\"g\" d=\"M", f);
                print_number(f, x);
                fprintf(f, " 0V%dM", USE_HEIGHT);
                print_number(f, x);
                fprintf(f, " %dV%d\"/><text class=\"m\" x=\"", WAIT_TOP, AXIS_TOP);
                print_number(f, x);
                fprintf(f, "\" y=\"%d\">%02d:%02d", AXIS_TOP + 15, tm.tm_hour, tm.tm_min);
                if (step % 60000000 != 0)
                        fprintf(f, ":%02d", tm.tm_sec);
                fputs("</text>\n", f);
        }
}

/* --- legend --- */

static int legend_line(FILE *f, int y, const char *fill, double share, const char *name) {
        fprintf(f,
                        "<rect class=\"s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/><text "
                        "x=\"%d\" y=\"%d\">",
                        LEGEND_LEFT, y, SWATCH, SWATCH, fill, LEGEND_LEFT + 16, y + SWATCH - 1);
        print_number(f, share * 100);
        fputs("% ", f);
        print_text(f, name, NAME_MAX_CHARS);
        fputs("<title>", f);
        print_text(f, name, SIZE_MAX);
        fputs("</title></text>\n", f);
        return y + LINE_HEIGHT;
}

static void print_legend(const Plot *p, const PlotDevice *d, FILE *f) {
        double idle = 1 - plot_cell_run(&d->mean) - d->mean.kept;
        int y = 0;

        for (size_t i = 0; i < p->n_named; i++)
                if (d->mean.run[i] > 0)
                        y = legend_line(f, y, colors[i], d->mean.run[i], p->named[i]);
        if (d->mean.run[PLOT_NAMED_MAX] > 0)
                y = legend_line(f, y, colors[PLOT_NAMED_MAX], d->mean.run[PLOT_NAMED_MAX], "others");
        y = legend_line(f, y, "url(#kept)", d->mean.kept, "kept, though wanted");
        (void) legend_line(f, y, "none", MAX(idle, 0.0), "idle");
        y = WAIT_TOP;
        for (size_t i = 0; i < _PLOT_WAIT_MAX; i++)
                y = legend_line(f, y, waits[i].fill, d->mean.waits[i], waits[i].name);
}

/* --- the picture --- */

static void print_panel(const Plot *p, Stack *s, FILE *f, int y) {
        const PlotDevice *d = s->device;
        double most = most_waiting(d, p->n_bins), full = MAX(1.0, (double) (long) (most + 0.999));
        char text[32];

        fprintf(f, "<g transform=\"translate(0 %d)\"><text class=\"h\" x=\"%d\" y=\"-8\">", y, LEFT);
        print_text(f, d->id, 60);
        if (!isempty(d->name)) {
                fputs(" \xc2\xb7 ", f);
                print_text(f, d->name, 60);
        }
        fputs("</text>\n", f);
        stack_begin(s, USE_HEIGHT, USE_HEIGHT);
        for (size_t i = 0; i < p->n_named; i++)
                stack_print(s, f, get_run, i, colors[i], p->named[i]);
        stack_print(s, f, get_run, PLOT_NAMED_MAX, colors[PLOT_NAMED_MAX], "others");
        stack_print(s, f, get_kept, 0, "url(#kept)", "kept, though wanted");
        stack_begin(s, AXIS_TOP, WAIT_HEIGHT / full);
        for (size_t i = 0; i < _PLOT_WAIT_MAX; i++)
                stack_print(s, f, get_wait, i, waits[i].fill, waits[i].name);
        print_y(f, 0, "100 %");
        print_y(f, USE_HEIGHT / 2.0, "50 %");
        print_y(f, USE_HEIGHT, "0");
        snprintf(text, sizeof(text), "%.0f", full);
        print_y(f, WAIT_TOP, text);
        print_y(f, AXIS_TOP, "0");
        fprintf(f, "<text x=\"%d\" y=\"%d\">groups that wait</text>\n", LEFT, WAIT_TOP - 5);
        print_times(p, f);
        print_legend(p, d, f);
        fputs("</g>\n", f);
}

/* Without CSS variables, which not every viewer knows. */
static const char head[] =
                "<style>svg{font:12px " PICTURE_FONT "}text{fill:" PICTURE_DIM "}.h,.i{fill:" PICTURE_TEXT "}"
                ".b{fill:" PICTURE_BACKGROUND "}.h{font-size:13.5px;font-weight:600}.m{text-anchor:middle}"
                ".r{text-anchor:end}.a{stroke:" PICTURE_BACKGROUND ";stroke-width:.5}.s,.p{stroke:" PICTURE_TEXT "}"
                ".s{stroke-width:.5}.g{stroke:" PICTURE_GRID ";fill:none}.p{fill:none}"
                "@media(prefers-color-scheme:dark){text{fill:" PICTURE_DARK_DIM "}.h,.i{fill:" PICTURE_DARK_TEXT "}"
                ".b{fill:" PICTURE_DARK_BACKGROUND "}.a{stroke:" PICTURE_DARK_BACKGROUND "}"
                ".s,.p{stroke:" PICTURE_DARK_TEXT "}.g{stroke:" PICTURE_DARK_GRID "}}</style>\n"
                "<defs>"
                "<pattern id=\"kept\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
                "<path class=\"p\" d=\"M0 5L5 0\"/></pattern>"
                "<pattern id=\"policy\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">"
                "<path class=\"i\" fill-opacity=\".3\" d=\"M0 0h4v4H0z\"/></pattern>"
                "<pattern id=\"drain\" width=\"4\" height=\"3\" patternUnits=\"userSpaceOnUse\">"
                "<path class=\"p\" d=\"M0 1.5h4\"/></pattern>"
                "<pattern id=\"service\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">"
                "<path class=\"i\" d=\"M0 0h4v4H0z\"/></pattern>"
                "</defs>\n";

static void print_head(const Plot *p, FILE *f) {
        int height = TOP + 20 + (int) MAX(p->n_devices, (size_t) 1) * PANEL_HEIGHT;
        struct tm from = local_time((int64_t) p->begin_us + p->realtime_us),
                  to = local_time((int64_t) p->end_us + p->realtime_us);

        fprintf(f,
                        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
                        "<title>Where the time of the devices went</title>\n",
                        WIDTH, height, WIDTH, height);
        fputs(head, f);
        fprintf(f, "<rect class=\"b\" width=\"100%%\" height=\"100%%\"/>\n<text x=\"%d\" y=\"20\">", LEFT);
        fprintf(f, "%d-%02d-%02d %02d:%02d:%02d to %02d:%02d:%02d ", from.tm_year + 1900, from.tm_mon + 1, from.tm_mday,
                        from.tm_hour, from.tm_min, from.tm_sec, to.tm_hour, to.tm_min, to.tm_sec);
        print_text(f, strempty(to.tm_zone), 32);
        if (p->n_devices == 0)
                fputs(": nothing was recorded", f);
        fputs("</text>\n", f);
}

int plot_print_svg(const Plot *p, FILE *f) {
        _cleanup_free_ double *edges = calloc(2 * MAX(p->n_bins, (size_t) 1), sizeof(double));

        if (!edges)
                return -ENOMEM;
        print_head(p, f);
        for (size_t i = 0; i < p->n_devices; i++) {
                Stack s = {.plot = p, .device = p->devices + i, .bottom = edges, .top = edges + p->n_bins};
                print_panel(p, &s, f, TOP + 20 + (int) i * PANEL_HEIGHT);
        }
        fputs("</svg>\n", f);
        return ferror(f) ? -EIO : 0;
}
