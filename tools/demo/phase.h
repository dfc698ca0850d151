/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Phase: a set of tenants that start together, a window in which they are measured, and the results
 *
 * Batch jobs are running before the window opens and until it has closed, so that every task of the latency job meets
 * the same neighbours.
 */

#include "common/samples.h"
#include "tools/demo/calibrate.h"

typedef enum PhaseKind {
        PHASE_ALONE,  /* the latency job alone, without xsched */
        PHASE_SHARED, /* with the batch jobs, without xsched */
        PHASE_XSCHED, /* with the batch jobs, with xsched */
        _PHASE_MAX,
} PhaseKind;

const char *phase_kind_to_string(PhaseKind v); /* "alone", "shared", "xsched" */
int phase_kind_from_string(const char *s);
const char *phase_kind_title(PhaseKind k); /* for people */

typedef struct PhasePlan {
        const Calibration *calibration;
        const char *device;
        uint64_t duration_ns, period_ns, deadline_ns;
        uint32_t n_low;
        uint32_t n_kernels, n_batch_kernels;
        const char *xschedctl;
        int high_priority, low_priority;
} PhasePlan;

/* What the layer of one role's tenants counted, summed. */
typedef struct Interception {
        uint64_t tasks, launches; /* what the tenants did */
        uint64_t seen, tracked, waited, waited_ns, expired;
        uint64_t least_seen_percent; /* of one tenant's launches */
} Interception;

typedef struct PhaseResult {
        PhaseKind kind;
        bool valid;
        uint64_t start_ns, window_ns;
        Samples latency; /* when (since start_ns), and how long */
        uint64_t n_missed, n_skipped;
        double *batch_rate; /* tasks a second of each batch job */
        uint32_t n_batch;
        double batch_total;
        Interception interception[_ROLE_MAX];
} PhaseResult;

void phase_result_done(PhaseResult *r);

typedef struct PhaseProgress {
        PhaseKind kind;
        bool warming_up;
        uint64_t elapsed_ns, duration_ns;
        const Samples *latency;
        uint64_t n_batch_tasks;
} PhaseProgress;

typedef void (*phase_progress_t)(const PhaseProgress *p, void *userdata);

/* Returns 0, or a negative errno after saying why. `progress` is called a few times a second. */
int phase_run(PhaseKind kind, const PhasePlan *plan, phase_progress_t progress, void *userdata, PhaseResult *ret);
