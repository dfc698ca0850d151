/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Report: the results, as a table (report.c), as JSON (json.c) and as a picture (plot.c)
 */

#include <stdio.h>

#include "tools/demo/options.h"

typedef struct Outcome {
        const Options *options;
        const Calibration *calibration;
        PhaseResult phases[_PHASE_MAX]; /* .valid where it was run */
} Outcome;

/* Return a ratio of two figures; 0 when the phase of one of them was not run. */
double outcome_latency_ratio(const Outcome *o, PhaseKind k, double percent); /* of a phase to alone */
double outcome_batch_ratio(const Outcome *o);                                /* with xsched to without */

void report_table(const Outcome *o, FILE *f);

/* Each returns 0 or a negative errno; the caller says why. */
