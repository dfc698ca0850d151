/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * plot: from samples to bins
 */

#include "tools/xschedctl/plot.h"
#include "common/array.h"

static void strings_free(char **v, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(v[i]);
        free(v);
}

void plot_record_done(PlotRecord *r) {
        strings_free(r->devices, r->n_devices);
        strings_free(r->groups, r->n_groups);
        free(r->samples);
        *r = (PlotRecord){};
}

int plot_record_device(PlotRecord *r, const char *id, size_t *ret) {
        for (size_t i = 0; i < r->n_devices; i++)
                if (streq(r->devices[i], id)) {
                        *ret = i;
                        return 0;
                }
        char **devices = array_grow(r->devices, r->n_devices, sizeof(char *));
        if (!devices)
                return -ENOMEM;
        r->devices = devices;
        devices[r->n_devices] = strdup(id);
        if (!devices[r->n_devices])
                return -ENOMEM;
        *ret = r->n_devices++;
        return 0;
}

int plot_record_add(PlotRecord *r, const PlotSample *s) {
        PlotSample *samples = array_grow(r->samples, r->n_samples, sizeof(PlotSample));

        if (!samples)
                return -ENOMEM;
        r->samples = samples;
        r->samples[r->n_samples++] = *s;
        return 0;
}

/* --- groups that are named --- */

/* The part of the sample between two moments. */
static double sample_part(const PlotSample *s, double begin_us, double end_us) {
        double begin = MAX((double) s->begin_us, begin_us), end = MIN((double) s->end_us, end_us);

        return end > begin ? (end - begin) / (double) (s->end_us - s->begin_us) : 0;
}

static bool sample_is_valid(const PlotRecord *r, const PlotSample *s) {
        return s->begin_us < s->end_us && s->device < r->n_devices &&
                        (s->group == PLOT_NO_GROUP || s->group < r->n_groups);
}

static bool is_wanted(const PlotRecord *r, const PlotSample *s, const char *device) {
        return sample_is_valid(r, s) && (!device || streq(r->devices[s->device], device));
}

/* Chooses the groups that ran most, or waited without running; "others" is never chosen. */
static int choose_named(const PlotRecord *r, const char *device, Plot *p, size_t *series) {
        _cleanup_free_ double *amounts = calloc(MAX(r->n_groups, (size_t) 1), sizeof(double));

        if (!amounts)
                return -ENOMEM;
        for (size_t i = 0; i < r->n_samples; i++) {
                const PlotSample *s = r->samples + i;
                if (is_wanted(r, s, device) && s->group != PLOT_NO_GROUP)
                        amounts[s->group] += (double) s->us[PLOT_RUN] *
                                        sample_part(s, (double) p->begin_us, (double) p->end_us);
        }
        for (size_t i = 0; i < r->n_groups; i++)
                series[i] = PLOT_NAMED_MAX;
        while (p->n_named < PLOT_NAMED_MAX) {
                size_t best = 0;

                for (size_t i = 1; i < r->n_groups; i++)
                        if (series[i] == PLOT_NAMED_MAX && amounts[i] > 0 && (best == 0 || amounts[i] > amounts[best]))
                                best = i;
                if (best == 0)
                        break;
                series[best] = p->n_named;
                p->named[p->n_named++] = r->groups[best];
        }
        return 0;
}

/* --- bins --- */

/* At first the cells are in microseconds. */
static void add_part(PlotCell *c, double *busy, const PlotSample *s, const size_t *series, double part) {
        if (part <= 0)
                return;
        if (s->group == PLOT_NO_GROUP) {
                *busy += part * (double) s->us[PLOT_BUSY];
                c->kept += part * (double) s->us[PLOT_DEVICE_KEPT];
                return;
        }
        double wait = (double) s->us[PLOT_WAIT], drain = MIN((double) s->us[PLOT_DRAIN], wait),
               service = MIN((double) s->us[PLOT_SERVICE], wait - drain);
        c->run[series[s->group]] += part * (double) s->us[PLOT_RUN];
        c->waits[PLOT_WAIT_POLICY] += part * (wait - drain - service);
        c->waits[PLOT_WAIT_DRAIN] += part * drain;
        c->waits[PLOT_WAIT_SERVICE] += part * service;
}

double plot_cell_run(const PlotCell *c) {
        double sum = 0;

        for (size_t i = 0; i < ELEMENTSOF(c->run); i++)
                sum += c->run[i];
        return sum;
}

/* Where several groups run at once, they share the device's busy time. Counters are read one after the other, so a sum
 * a little above the whole counts as the whole. */
static void cell_normalise(PlotCell *c, double busy, double width_us) {
        double run = plot_cell_run(c), whole = busy > 0 ? MIN(busy, width_us) : width_us;

        if (run > whole)
                for (size_t i = 0; i < ELEMENTSOF(c->run); i++)
                        c->run[i] *= whole / run;
        run = MIN(run, whole);
        c->kept = MIN(c->kept, width_us - run);
        for (size_t i = 0; i < ELEMENTSOF(c->run); i++)
                c->run[i] /= width_us;
        c->kept /= width_us;
        for (size_t i = 0; i < _PLOT_WAIT_MAX; i++)
                c->waits[i] /= width_us;
}

static void cell_add_mean(PlotCell *mean, const PlotCell *c, size_t n) {
        for (size_t i = 0; i < ELEMENTSOF(c->run); i++)
                mean->run[i] += c->run[i] / (double) n;
        mean->kept += c->kept / (double) n;
        for (size_t i = 0; i < _PLOT_WAIT_MAX; i++)
                mean->waits[i] += c->waits[i] / (double) n;
}

static void fill_device(
                const PlotRecord *r, size_t device, const size_t *series, const Plot *p, PlotDevice *d, double *busy) {
        double width = (double) (p->end_us - p->begin_us) / (double) p->n_bins;

        for (size_t i = 0; i < r->n_samples; i++) {
                const PlotSample *s = r->samples + i;
                if (!sample_is_valid(r, s) || s->device != device || s->end_us <= p->begin_us ||
                                s->begin_us >= p->end_us)
                        continue;
                double begin = (double) MAX(s->begin_us, p->begin_us) - (double) p->begin_us;
                for (size_t b = (size_t) (begin / width); b < p->n_bins; b++) {
                        double at = (double) p->begin_us + (double) b * width;
                        if (at >= (double) s->end_us)
                                break;
                        add_part(d->bins + b, busy + b, s, series, sample_part(s, at, at + width));
                }
        }
        for (size_t b = 0; b < p->n_bins; b++) {
                cell_normalise(d->bins + b, busy[b], width);
                cell_add_mean(&d->mean, d->bins + b, p->n_bins);
        }
}

static int add_device(const PlotRecord *r, size_t device, const size_t *series, Plot *p) {
        _cleanup_free_ double *busy = calloc(p->n_bins, sizeof(double));
        PlotDevice *d = p->devices + p->n_devices;

        *d = (PlotDevice){.id = r->devices[device], .name = ""};
        d->bins = calloc(p->n_bins, sizeof(PlotCell));
        if (!d->bins || !busy) {
                free(d->bins);
                return -ENOMEM;
        }
        p->n_devices++;
        fill_device(r, device, series, p, d, busy);
        return 0;
}

int plot_make(const PlotRecord *r, uint64_t begin_us, uint64_t end_us, size_t n_bins, const char *device, Plot *ret) {
        _cleanup_free_ size_t *series = calloc(MAX(r->n_groups, (size_t) 1), sizeof(size_t));
        Plot p = {.begin_us = begin_us, .end_us = end_us, .n_bins = n_bins};
        int k;

        if (begin_us >= end_us || n_bins == 0)
                return -EINVAL;
        p.devices = calloc(MAX(r->n_devices, (size_t) 1), sizeof(PlotDevice));
        k = p.devices && series ? choose_named(r, device, &p, series) : -ENOMEM;
        for (size_t i = 0; k >= 0 && i < r->n_devices; i++)
                if (!device || streq(r->devices[i], device))
                        k = add_device(r, i, series, &p);
        if (k < 0) {
                plot_done(&p);
                return k;
        }
        *ret = p;
        return 0;
}

void plot_done(Plot *p) {
        for (size_t i = 0; i < p->n_devices; i++)
                free(p->devices[i].bins);
        free(p->devices);
        *p = (Plot){};
}
