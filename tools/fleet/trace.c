/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The jobs of a cluster
 */

#include <math.h>

#include "common/array.h"
#include "tools/fleet/trace.h"

/* A year: a longer time is no job's, and multiplications must not wrap. */
#define LONGEST_S 31536000.0

static const char *const class_names[_CLASS_MAX] = {
                [CLASS_INTERACTIVE] = "interactive",
                [CLASS_HEAVY] = "heavy",
                [CLASS_LIGHT] = "light",
};

const char *job_class_to_string(JobClass c) {
        return class_names[c];
}

/* FNV-1a, and a last mix: names that differ by one digit differ in the low bits, too. */
uint64_t trace_hash(const char *s) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (; *s; s++)
                h = (h ^ (unsigned char) *s) * UINT64_C(0x100000001b3);
        h ^= h >> 32;
        h *= UINT64_C(0xd6e8feb86659fd93);
        return h ^ h >> 32;
}

static bool is_time(double s) {
        return isfinite(s) && s >= -LONGEST_S && s <= 100 * LONGEST_S;
}

int trace_add(Trace *t, const char *name, const char *user, double gpus, double submit_s, double duration_s) {
        static const uint64_t launches[] = {2 * NSEC_PER_MSEC, 5 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC};

        if (!is_time(submit_s) || !is_time(duration_s) || submit_s < 0 || duration_s <= 0 || !(gpus > 0) ||
                        gpus > TRACE_GPUS_MAX) {
                t->n_left_out++;
                return 0;
        }
        TraceJob *jobs = array_grow(t->jobs, t->n, sizeof(*jobs));
        if (!jobs)
                return -ENOMEM;
        t->jobs = jobs;
        jobs[t->n++] = (TraceJob){
                        .class = gpus < 1                      ? CLASS_INTERACTIVE
                                        : trace_hash(user) % 4 ? CLASS_LIGHT
                                                               : CLASS_HEAVY,
                        .user = trace_hash(user),
                        .n_gpus = (uint32_t) ceil(gpus),
                        .percent = gpus < 1 ? MAX((uint32_t) (100 * gpus), 1U) : 100,
                        .submit_ns = (uint64_t) (submit_s * NSEC_PER_SEC),
                        .duration_ns = (uint64_t) (duration_s * NSEC_PER_SEC),
                        .launch_ns = launches[trace_hash(name) / 4 % ELEMENTSOF(launches)],
        };
        return 0;
}

static int compare_jobs(const void *a, const void *b) {
        const TraceJob *x = a, *y = b;

        return (x->submit_ns > y->submit_ns) - (x->submit_ns < y->submit_ns);
}

void trace_sort(Trace *t, uint32_t faster) {
        if (t->n == 0)
                return;
        qsort(t->jobs, t->n, sizeof(*t->jobs), compare_jobs);
        uint64_t first = t->jobs[0].submit_ns;
        for (size_t i = 0; i < t->n; i++) {
                TraceJob *j = t->jobs + i;

                j->submit_ns = (j->submit_ns - first) / faster;
                j->duration_ns = MAX(j->duration_ns / faster, NSEC_PER_MSEC);
        }
}

void trace_done(Trace *t) {
        free(t->jobs);
        *t = (Trace){0};
}
