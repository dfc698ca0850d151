/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * plot: on a terminal
 *
 * There is a row for each group, and for kept time and the parts of waiting. The height of a column is the part of that
 * time. Rows of waits share one scale, whose top is the longest of all waits.
 */

#include <langinfo.h>

#include "plot-text.h"
#include "tools/xschedctl/xschedctl-plot.h"

enum { PLOT_NAME, PLOT_PERCENT, PLOT_CHART, _PLOT_COLUMN_MAX };

typedef double (*get_t)(const PlotCell *c, size_t which);

static double get_run(const PlotCell *c, size_t which) {
        return c->run[which];
}

static double get_kept(const PlotCell *c, size_t which) {
        return c->kept;
}

static double get_idle(const PlotCell *c, size_t which) {
        return MAX(1 - plot_cell_run(c) - c->kept, 0.0);
}

static double get_wait(const PlotCell *c, size_t which) {
        return c->waits[which];
}

/* Makes one character for each bin. A value above zero is always visible. */
static char *draw(const Plot *p, const PlotDevice *d, get_t get, size_t which, double full) {
        enum { LEVELS = 8 };
        static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                                                 *const ascii[LEVELS + 1] = {
                                                                 " ", ".", ":", "-", "=", "+", "*", "#", "@"};
        const char *const *levels = streq(nl_langinfo(CODESET), "UTF-8") ? blocks : ascii;
        char *text = malloc(p->n_bins * 4 + 2), *end = text;

        if (!text)
                return NULL;
        for (size_t i = 0; i < p->n_bins; i++) {
                double v = get(d->bins + i, which) / full * LEVELS;
                size_t level = v >= LEVELS ? LEVELS : (size_t) (v + 0.5);

                end = stpcpy(end, levels[v > 0.01 ? MAX(level, (size_t) 1) : 0]);
        }
        return text;
}

static int add_row(
                Table *t, const Plot *p, const PlotDevice *d, const char *name, get_t get, size_t which, double full) {
        _cleanup_free_ char *chart = draw(p, d, get, which, full);
        Value *cells = chart ? table_add(t, TABLE_NO_PARENT) : NULL;

        if (!cells)
                return -ENOMEM;
        cells[PLOT_NAME] = value_string(name);
        cells[PLOT_PERCENT] = value_double(get(&d->mean, which) * 100);
        cells[PLOT_CHART] = value_string(chart);
        return 0;
}

static int add_waits(Table *t, const Plot *p, const PlotDevice *d) {
        static const char *const names[_PLOT_WAIT_MAX] = {
                        [PLOT_WAIT_POLICY] = "(waited: policy)",
                        [PLOT_WAIT_DRAIN] = "(waited: drain)",
                        [PLOT_WAIT_SERVICE] = "(waited: service)",
        };
        double most = 1;
        int r = 0;

        for (size_t i = 0; i < p->n_bins; i++)
                for (size_t w = 0; w < _PLOT_WAIT_MAX; w++)
                        most = MAX(most, d->bins[i].waits[w]);
        for (size_t w = 0; w < _PLOT_WAIT_MAX && r >= 0; w++)
                r = add_row(t, p, d, names[w], get_wait, w, most);
        return r;
}

static int print_device(const Plot *p, const PlotDevice *d, FILE *f, size_t width) {
        const Column columns[_PLOT_COLUMN_MAX] = {
                        [PLOT_NAME] = {d->id, "", CELL_PLAIN, COLUMN_ELASTIC},
                        [PLOT_PERCENT] = {"%", "", CELL_PERCENT, COLUMN_RIGHT},
                        [PLOT_CHART] = {"", "", CELL_PLAIN, 0},
        };
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        int r = 0;

        for (size_t i = 0; i < p->n_named && r >= 0; i++)
                if (d->mean.run[i] > 0)
                        r = add_row(&t, p, d, p->named[i], get_run, i, 1);
        if (r >= 0 && d->mean.run[PLOT_NAMED_MAX] > 0)
                r = add_row(&t, p, d, "(others)", get_run, PLOT_NAMED_MAX, 1);
        if (r >= 0)
                r = add_row(&t, p, d, "(kept, though wanted)", get_kept, 0, 1);
        if (r >= 0)
                r = add_row(&t, p, d, "(idle)", get_idle, 0, 1);
        if (r >= 0)
                r = add_waits(&t, p, d);
        return r < 0 ? r : table_print(&t, f, width, t.n_rows, true);
}

int plot_print_text(const Plot *p, FILE *f, size_t width) {
        int r = 0;

        for (size_t i = 0; i < p->n_devices && r >= 0; i++) {
                r = print_device(p, p->devices + i, f, width);
                fputc('\n', f);
        }
        return r;
}
