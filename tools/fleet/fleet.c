/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The fleet: finds the GPU with the next event, and places jobs
 */

#include "tools/fleet/fleet.h"
#include "gpu.h"
#include "job.h"

/* Jobs that wait are tried in their order, no more of them than this each time that room appears. */
#define TRIED_MAX 256U

static const char *const discipline_names[_DISCIPLINE_MAX] = {
                [DISCIPLINE_FIRST_COME] = "first-come",
                [DISCIPLINE_EXCLUSIVE] = "exclusive",
                [DISCIPLINE_TIME_SLICING] = "time-slicing",
                [DISCIPLINE_XSCHED] = "xsched",
};

const char *discipline_to_string(Discipline d) {
        return discipline_names[d];
}

/* --- what has to hold --- */

uint64_t fleet_bound(const FleetConfig *config, const Trace *trace) {
        uint64_t launch = 0;

        for (size_t i = 0; i < trace->n; i++)
                if (trace->jobs[i].class != CLASS_INTERACTIVE)
                        launch = MAX(launch, trace->jobs[i].launch_ns);
        return launch + MAX(config->policy.timeslice_ns, config->policy.starve_run_ns);
}

/* The bound has one turn more than StarveAfter= gives: one may have begun before the request came. */
uint64_t fleet_bound_behind(const FleetConfig *config, uint64_t bound_ns, uint64_t took_ns) {
        uint64_t every = config->policy.starve_ns;

        return bound_ns * (1 + (every > 0 ? (took_ns + bound_ns) / every : 0));
}

/* --- which GPU is next: a heap by next_ns --- */

static bool before(const Gpu *a, const Gpu *b) {
        return a->next_ns != b->next_ns ? a->next_ns < b->next_ns : a->number < b->number;
}

static void heap_set(Fleet *f, size_t at, Gpu *g) {
        f->heap[at] = g;
        g->heap = at;
}

static void heap_fix(Gpu *g) {
        Fleet *f = g->fleet;
        size_t i = g->heap, k;

        for (; i > 0 && before(g, f->heap[(i - 1) / 2]); i = (i - 1) / 2)
                heap_set(f, i, f->heap[(i - 1) / 2]);
        for (; (k = 2 * i + 1) < f->n_gpus; i = k) {
                if (k + 1 < f->n_gpus && before(f->heap[k + 1], f->heap[k]))
                        k++;
                if (!before(f->heap[k], g))
                        break;
                heap_set(f, i, f->heap[k]);
        }
        heap_set(f, i, g);
}

void fleet_look_at(Gpu *g, uint64_t at) {
        if (at >= g->next_ns)
                return;
        g->next_ns = at;
        heap_fix(g);
}

/* --- where there is room --- */

static uint32_t slots_of(const Fleet *f) {
        return f->config.discipline == DISCIPLINE_EXCLUSIVE ? 1 : f->config.slots;
}

/* Returns how crowded the GPU is: workers of the same kind count most. */
static size_t crowd_of(const Gpu *g, bool service) {
        return (service ? g->n_services : g->n - g->n_services) * FLEET_SLOTS_MAX + g->n;
}

/* Finds the GPUs of a host that have room, at most n, the emptiest first. Returns their number. */
static uint32_t pick_of_host(Fleet *f, uint32_t host, uint32_t n, bool service, Gpu **ret, size_t *ret_crowd) {
        Gpu *first = f->gpus + (size_t) host * f->config.gpus_per_host;
        uint32_t found = 0;

        *ret_crowd = 0;
        for (size_t crowd = 0; found < n && crowd <= (size_t) FLEET_SLOTS_MAX * (FLEET_SLOTS_MAX + 1); crowd++)
                for (uint32_t i = 0; found < n && i < f->config.gpus_per_host; i++)
                        if (first[i].n < slots_of(f) && crowd_of(first + i, service) == crowd) {
                                ret[found++] = first + i;
                                *ret_crowd += crowd;
                        }
        return found;
}

/* Chooses GPUs for a job: on the least crowded host; for a job that is larger than a host, on the first hosts with
 * enough GPUs. */
static bool pick(Fleet *f, const TraceJob *of, Gpu **ret) {
        uint32_t per_host = f->config.gpus_per_host, n = of->n_gpus;
        bool service = of->class == CLASS_INTERACTIVE;
        size_t crowd, least = SIZE_MAX;
        uint32_t best = 0, have = 0;

        for (uint32_t h = 0; n > per_host && h < f->config.n_hosts && have < n; h++) {
                uint32_t part = MIN(n - have, per_host);

                if (pick_of_host(f, h, part, service, ret + have, &crowd) == part)
                        have += part;
        }
        if (n > per_host)
                return have == n;
        for (uint32_t h = 0; h < f->config.n_hosts && least > 0; h++)
                if (pick_of_host(f, h, n, service, ret, &crowd) == n && crowd < least) {
                        least = crowd;
                        best = h;
                }
        return least != SIZE_MAX && pick_of_host(f, best, n, service, ret, &crowd) == n;
}

/* Tries to place the job. Returns whether it was placed, or a negative errno. */
static int try_job(Fleet *f, Job *j, uint64_t now) {
        Gpu *gpus[TRACE_GPUS_MAX];

        if (!pick(f, j->of, gpus))
                return 0;
        histogram_add(&f->result->classes[j->of->class].waits, now - j->of->submit_ns);
        int r = job_place(j, gpus, now);
        return r < 0 ? r : 1;
}

static int place_queued(Fleet *f, uint64_t now) {
        size_t kept = 0;
        int r = 0;

        for (size_t i = 0; i < f->n_queued; i++) {
                r = r >= 0 && i < TRIED_MAX ? try_job(f, f->queue[i], now) : MIN(r, 0);
                if (r <= 0)
                        f->queue[kept++] = f->queue[i];
        }
        f->n_queued = kept;
        return MIN(r, 0);
}

/* --- jobs come and end --- */

static unsigned gang_of(const Fleet *f, const TraceJob *of) {
        return of->n_gpus == 1 ? 0 : of->n_gpus <= f->config.gpus_per_host ? 1 : 2;
}

static void count_ended(Fleet *f, const Job *j, uint64_t now) {
        FleetResult *r = f->result;
        const TraceJob *of = j->of;
        double slowdown = (double) (now - of->submit_ns) / (double) of->duration_ns;
        unsigned gang = gang_of(f, of);

        if (of->class == CLASS_INTERACTIVE)
                return;
        r->classes[of->class].n++;
        r->classes[of->class].slowdown += slowdown;
        r->classes[of->class].slowdown_max = MAX(r->classes[of->class].slowdown_max, slowdown);
        r->gangs[gang].n++;
        r->gangs[gang].slowdown += slowdown;
        for (uint32_t i = 0; i < of->n_gpus; i++) {
                r->gangs[gang].running_ns += (double) (now - j->placed_ns);
                r->gangs[gang].waited_ns += (double) j->workers[i].waited_ns;
        }
}

static int end_jobs(Fleet *f, uint64_t now) {
        if (!f->ended)
                return 0;
        while (f->ended) {
                Job *j = f->ended;

                f->ended = j->next;
                for (uint32_t i = 0; i < j->of->n_gpus; i++)
                        gpu_remove(j->workers[i].gpu, j->workers + i, now);
                count_ended(f, j, now);
                job_free(j);
                f->result->n_jobs++;
        }
        return place_queued(f, now);
}

static int submit(Fleet *f, Job *j) {
        if (j->of->n_gpus > f->n_gpus) {
                f->result->n_too_large++;
                return 0;
        }
        if (j->of->class != CLASS_INTERACTIVE)
                f->result->asked_ns += j->of->duration_ns * j->of->n_gpus;
        f->queue[f->n_queued] = j;
        int r = try_job(f, j, j->of->submit_ns);
        f->n_queued += r == 0;
        return MIN(r, 0);
}

static int run(Fleet *f) {
        size_t i = 0;
        int r = 0;

        while (r >= 0 && !f->failed) {
                Gpu *g = f->heap[0];
                uint64_t comes = i < f->n_jobs ? f->jobs[i].of->submit_ns : NSEC_INFINITY;
                uint64_t now = MIN(comes, g->next_ns);

                if (now == NSEC_INFINITY)
                        break;
                f->result->end_ns = now;
                if (comes == now)
                        r = submit(f, f->jobs + i++);
                else {
                        gpu_look(g, now);
                        heap_fix(g);
                        r = end_jobs(f, now);
                }
        }
        return f->failed ? -ENOMEM : r;
}

static int prepare(Fleet *f, const Trace *t) {
        int r = 0;

        f->gpus = calloc(f->n_gpus, sizeof(*f->gpus));
        f->heap = calloc(f->n_gpus, sizeof(Gpu *));
        f->jobs = calloc(t->n + 1, sizeof(*f->jobs));
        f->queue = calloc(t->n + 1, sizeof(Job *));
        if (!f->gpus || !f->heap || !f->jobs || !f->queue)
                return -ENOMEM;
        for (size_t i = 0; i < f->n_gpus && r >= 0; i++) {
                r = gpu_new(f->gpus + i, f, i);
                f->heap[i] = f->gpus + i;
        }
        for (size_t i = 0; i < t->n; i++)
                f->jobs[i].of = t->jobs + i;
        f->result->span_ns = t->n > 0 ? t->jobs[t->n - 1].submit_ns : 0;
        return r;
}

int fleet_run(const FleetConfig *config, const Trace *trace, FleetResult *ret) {
        Fleet f = {
                        .config = *config,
                        .n_gpus = (size_t) config->n_hosts * config->gpus_per_host,
                        .n_jobs = trace->n,
                        .result = ret,
                        .ops = config->ops ?: &policy_tree_ops,
                        .bound_ns = fleet_bound(config, trace),
        };

        *ret = (FleetResult){0};
        int r = prepare(&f, trace);
        if (r >= 0)
                r = run(&f);
        for (size_t i = 0; f.jobs && i < f.n_jobs; i++) {
                for (uint32_t k = 0; f.jobs[i].workers && k < f.jobs[i].of->n_gpus; k++)
                        if (f.jobs[i].workers[k].entity)
                                f.ops->entity_free(f.jobs[i].workers[k].entity, ret->end_ns);
                job_free(f.jobs + i);
        }
        for (size_t i = 0; f.gpus && i < f.n_gpus; i++)
                gpu_done(f.gpus + i);
        free(f.gpus);
        free(f.heap);
        free(f.jobs);
        free(f.queue);
        return r;
}
