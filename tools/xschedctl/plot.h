/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * plot: the record of the last minutes as a picture
 *
 * What the service returns is a list of samples. A Plot is made of them: time cut into bins of equal width, and for
 * each device what it did in each bin, with the few groups by name that ran most, the same ones on all devices. It is
 * drawn as SVG, or with block characters. All of this is pure: samples in, text out.
 */

#include <stdio.h>

#include "common/macro.h"

#define PLOT_NAMED_MAX 7U /* groups that have a colour of their own */

typedef enum PlotTime {
        PLOT_RUN,
        PLOT_KEPT,
        PLOT_WAIT,
        PLOT_DRAIN,
        PLOT_SERVICE,
        _PLOT_TIME_MAX,
} PlotTime;

typedef enum PlotUse {
        PLOT_BUSY,
        PLOT_DEVICE_KEPT,
        PLOT_IDLE,
        _PLOT_USE_MAX,
} PlotUse;

/* What a group did on a device, or a device (group PLOT_NO_GROUP), between two moments, in microseconds. */
typedef struct PlotSample {
        uint64_t begin_us, end_us;
        size_t device, group; /* places among the names; group 0 is the others */
        uint64_t us[_PLOT_TIME_MAX];
} PlotSample;

#define PLOT_NO_GROUP SIZE_MAX

typedef struct PlotRecord {
        uint64_t until_us;
        char **devices, **groups;
        size_t n_devices, n_groups;
        PlotSample *samples;
        size_t n_samples;
} PlotRecord;

void plot_record_done(PlotRecord *r);

/* The place of a device, which is made if there is none; a negative errno. */
int plot_record_device(PlotRecord *r, const char *id, size_t *ret);
int plot_record_add(PlotRecord *r, const PlotSample *s);

/* Kinds of waits, which are in the legend, too. */
typedef enum PlotWait {
        PLOT_WAIT_POLICY,
        PLOT_WAIT_DRAIN,
        PLOT_WAIT_SERVICE,
        _PLOT_WAIT_MAX,
} PlotWait;

/* Shares of a bin, or of all of the time. Waits may be more than 1: several groups may wait. */
typedef struct PlotCell {
        double run[PLOT_NAMED_MAX + 1]; /* the last one: others */
        double kept, waits[_PLOT_WAIT_MAX];
} PlotCell;

typedef struct PlotDevice {
        const char *id, *name; /* name may be empty */
        PlotCell *bins;
        PlotCell mean;
} PlotDevice;

typedef struct Plot {
        uint64_t begin_us, end_us; /* CLOCK_MONOTONIC of the service's machine */
        int64_t realtime_us;       /* add this to have the time of day */
        size_t n_bins;
        const char *named[PLOT_NAMED_MAX];
        size_t n_named;
        PlotDevice *devices;
        size_t n_devices;
} Plot;

/* The names in it are the record's. `device` NULL: all. 0 or a negative errno. */
int plot_make(const PlotRecord *r, uint64_t begin_us, uint64_t end_us, size_t n_bins, const char *device, Plot *ret);
void plot_done(Plot *p);

/* Returns the run time of all groups, "others" included. */
double plot_cell_run(const PlotCell *c);
