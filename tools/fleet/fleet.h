/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Fleet: hosts with GPUs under one discipline, and the jobs of a trace on them, in virtual time
 *
 * Jobs are placed in the order of submission, on the GPUs with the least. A job that finds no room waits, and later
 * ones may go before it. There are two kinds of jobs:
 *
 *   - A service answers requests for as long as the trace says. They come at random, and each is FLEET_REQUEST_NS of
 *     work in launches of FLEET_REQUEST_LAUNCH_NS. Requests that wait are answered in their order.
 *   - Training on one GPU always has work. A gang works in steps of FLEET_STEP_NS, and after each all of its workers
 *     wait for the last (a collective), whatever hosts they are on. Each GPU decides for itself, so the gang's members
 *     wait for each other as long as they can: these waits are the most that gangs can lose. (On one host Gang=yes
 *     holds them together; that is the service's, and is not simulated.)
 *
 * A discipline says what GPUs do:
 *
 *   DISCIPLINE_FIRST_COME    shared: launch by launch, first come, first served; one launch of each worker in flight
 *   DISCIPLINE_EXCLUSIVE     one worker a GPU
 *   DISCIPLINE_TIME_SLICING  shared: all that have work get equal parts at the same time, as by slices that are short
 *                            beside all else; a change from one to the next costs nothing
 *   DISCIPLINE_XSCHED        shared: policy/ decides (FleetConfig.ops), level 1 (the gate) carries it out: a launch
 * that runs is never stopped, and a worker begins FLEET_HANDOVER_NS after it was released
 *
 * The only source of randomness is the trace's seed, and no clock is used: so each run can be repeated.
 */

#include "policy/policy.h"
#include "tools/fleet/histogram.h"
#include "tools/fleet/random.h"
#include "tools/fleet/trace.h"

#define FLEET_SLOTS_MAX         8U
#define FLEET_REQUEST_NS        (8 * NSEC_PER_MSEC)
#define FLEET_REQUEST_LAUNCH_NS NSEC_PER_MSEC
#define FLEET_STEP_NS           (250 * NSEC_PER_MSEC)
#define FLEET_HANDOVER_NS       (100 * NSEC_PER_USEC)
#define FLEET_EPOCH_NS          (5 * NSEC_PER_SEC)

typedef enum Discipline {
        DISCIPLINE_FIRST_COME,
        DISCIPLINE_EXCLUSIVE,
        DISCIPLINE_TIME_SLICING,
        DISCIPLINE_XSCHED,
        _DISCIPLINE_MAX,
} Discipline;

typedef struct Fleet Fleet;
typedef struct Gpu Gpu;
typedef struct Job Job;

/* When a request came, and how much training the GPU had had and had wanted (Gpu) by then. */
typedef struct Request {
        uint64_t came_ns, low_ns, wanted_ns;
} Request;

/* Requests that wait, the oldest first: a ring. */
typedef struct Requests {
        Request *all;
        size_t size, first, n;
} Requests;

/* A job's part on one GPU. */
typedef struct Worker {
        Job *job;
        Gpu *gpu;
        uint64_t left_ns; /* of its burst: a request, a step, or all that there is */
        uint64_t launch_ns;
        uint64_t epoch_ns; /* had on the GPU since its workers last changed */
        bool ready;

        bool granted, was_granted; /* by the policy; otherwise always */
        PolicyEntity *entity;
        uint64_t turn; /* order of what waits for the GPU */
        uint64_t not_before_ns;

        /* training */
        uint64_t work_left_ns; /* after this burst */
        uint64_t waits_since_ns;
        uint64_t waited_ns; /* for others of its gang */
        bool begins;        /* its next step, when its GPU is looked at */

        /* services */
        Random random;
        uint64_t next_ns, end_ns; /* the next request; NSEC_INFINITY: none comes */
        Requests requests;
} Worker;

struct Job {
        const TraceJob *of;
        Worker *workers; /* of->n_gpus; NULL: not placed */
        uint64_t placed_ns;
        uint32_t n_waiting, n_over;
        Job *next; /* in Fleet.ended */
};

struct Gpu {
        Fleet *fleet;
        size_t number, heap;
        uint64_t now_ns, next_ns; /* looked at; to be looked at */
        Worker *workers[FLEET_SLOTS_MAX];
        size_t n, n_services;
        uint64_t n_turns;

        Worker *current;   /* whose launch runs */
        uint64_t begin_ns; /* of its launches, one behind the other, */
        uint64_t cut_ns;   /* and of the end of the last, after which another worker runs; NSEC_INFINITY */

        Policy *policy;
        uint64_t wake_ns;
        bool touched;

        uint64_t epoch_ns;
        uint64_t low_since_ns; /* training runs while a service has work; NSEC_INFINITY: not so */
        uint64_t low_ns;       /* that training had of it */
        uint64_t wanted_ns;    /* in which training had work */
};

typedef struct FleetConfig {
        Discipline discipline;
        uint32_t n_hosts, gpus_per_host;
        uint32_t slots; /* workers on a shared GPU: its memory; at most FLEET_SLOTS_MAX */
        uint64_t seed;
        const PolicyOps *ops; /* of DISCIPLINE_XSCHED; NULL: the default policy */
        PolicyConfig policy;
} FleetConfig;

#define GANGS_MAX 3U /* one GPU; several of one host; over hosts */

typedef struct FleetResult {
        Histogram requests; /* ns from a request to its end, less FLEET_REQUEST_NS */
        Histogram low;      /* ns without a break in which training ran while a service had work */

        /* Of requests that came or waited while training had work on their GPU: ns from a request to its end in which
         * training ran, all pieces together; and how many had more of it than fleet_bound_behind() allows. */
        Histogram behind;
        uint64_t n_behind_too_long;

        struct {
                Histogram waits; /* ns from submission until it is placed */
                double slowdown; /* sum of (end - submission) / duration; of services of latency / work, by request */
                double slowdown_max;
                uint64_t n;
        } classes[_CLASS_MAX];
        struct {
                uint64_t n;
                double slowdown, running_ns, waited_ns; /* sums; of all workers */
        } gangs[GANGS_MAX];
        double busy_ns;                          /* of all GPUs while jobs were submitted */
        double share_ns, share_off, share_worst; /* epochs; off: sum of part * ns */
        uint64_t n_epochs;
        uint64_t span_ns, end_ns;   /* of the submissions; when the last job ended */
        uint64_t asked_ns, done_ns; /* work of training */
        uint64_t n_events;
        size_t n_jobs, n_too_large;
} FleetResult;

struct Fleet {
        FleetConfig config;
        Gpu *gpus, **heap;
        size_t n_gpus;
        Job *jobs;
        size_t n_jobs;
        Job **queue; /* that found no room, in the order of submission */
        size_t n_queued;
        Job *ended;
        FleetResult *result;
        const PolicyOps *ops;
        uint64_t bound_ns; /* fleet_bound() */
        bool failed;       /* memory ran out */
};

const char *discipline_to_string(Discipline d);

/* Under xsched, the longest that training may have the GPU while a service has work: the longest launch of its jobs,
 * and a slice. A turn of the starvation floor is a slice, too. */
uint64_t fleet_bound(const FleetConfig *config, const Trace *trace);

/* The same for all the training together for which a request waits: a floor has one turn each StarveAfter=, so that a
 * request that others' requests keep waiting longer than that meets another one. */
uint64_t fleet_bound_behind(const FleetConfig *config, uint64_t bound_ns, uint64_t took_ns);

/* Runs all jobs to their ends. 0 or -ENOMEM. */
int fleet_run(const FleetConfig *config, const Trace *trace, FleetResult *ret);

/* --- fleet.c: has the GPU looked at, at the latest then --- */
void fleet_look_at(Gpu *g, uint64_t at);
