/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Trace: the jobs of a cluster, as two published traces have them, or made up
 *
 * Philly: cluster_job_log, a JSON array; GPUs and duration are those of the last attempt that has both its times.
 *   https://github.com/msr-fiddle/philly-traces
 * PAI: the tables pai_job_table and pai_task_table, CSV with their headers in files of their own; a task's plan_gpu is
 *   in percent of a GPU, for each of its inst_num instances.
 *   https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020
 *
 * Properties that neither trace has are made up from hashes of names, so that a trace always gives the same jobs. An
 * instance that asks for less than a GPU is a service (interactive); all others train. One user (PAI) or virtual
 * cluster (Philly) of four is heavy. A launch takes 2, 5 or 10 ms.
 *
 * Functions return 0 or a negative errno. *ret has to be empty or a trace, to which jobs are added. Jobs whose times or
 * GPUs are not known are left out, and counted.
 */

#include <stdint.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/time-util.h"

#define TRACE_GPUS_MAX 1024U

typedef enum JobClass { CLASS_INTERACTIVE, CLASS_HEAVY, CLASS_LIGHT, _CLASS_MAX } JobClass;

typedef struct TraceJob {
        JobClass class;
        uint64_t user;    /* a hash; of Philly the virtual cluster's */
        uint32_t n_gpus;  /* 1..TRACE_GPUS_MAX; of a service 1 */
        uint32_t percent; /* of each GPU that a service keeps busy; of others 100 */
        uint64_t submit_ns;
        uint64_t duration_ns; /* alone on its GPUs; more than 0 */
        uint64_t launch_ns;
} TraceJob;

typedef struct Trace {
        TraceJob *jobs; /* after trace_sort() in the order of submission, the first at 0 */
        size_t n;
        size_t n_left_out;
} Trace;

/* Shape of a made-up trace: services and training that would keep so much of the GPUs busy. */
typedef struct TraceShape {
        uint64_t seed;
        uint64_t length_ns;       /* of the time in which jobs are submitted */
        uint32_t n_gpus;          /* of the cluster */
        uint32_t services;        /* percent of the GPUs for which there is a service */
        uint32_t training;        /* percent of the GPUs that training asks for */
        uint64_t mean_job_ns;     /* of a training job */
        uint32_t largest_percent; /* a gang is at most so much of the cluster */
} TraceShape;

const char *job_class_to_string(JobClass c);

/* Sorts, and divides times by `faster`. */
void trace_sort(Trace *t, uint32_t faster);
void trace_done(Trace *t);

uint64_t trace_hash(const char *s);

/* Adds a job; the class, the launches and the limits are applied here. */
int trace_add(Trace *t, const char *name, const char *user, double gpus, double submit_s, double duration_s);
