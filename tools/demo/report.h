/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What came of it: for people (report.c), for machines (json.c), for the eye (plot.c)
 */

#include <stdio.h>

#include "tools/demo/options.h"

typedef struct Outcome {
        const Options *options;
        const Calibration *calibration;
        PhaseResult phases[_PHASE_MAX]; /* .valid where it was run */
} Outcome;

/* With one figure left out of a ratio (its phase was not run), these return 0. */
double outcome_latency_ratio(const Outcome *o, PhaseKind k, double percent); /* of a phase to alone */
double outcome_batch_ratio(const Outcome *o);                                /* with xsched to without */

void report_table(const Outcome *o, FILE *f);

/* Each returns 0 or a negative errno; the caller says why. */
