/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Simulates jobs on their GPUs: requests, steps, and the waits of gangs
 */

#include "job.h"
#include "gpu.h"
#include "tools/fleet/fleet.h"

bool worker_is_service(const Worker *w) {
        return w->job->of->class == CLASS_INTERACTIVE;
}

/* --- requests --- */

static bool requests_push(Requests *q, Request request) {
        if (q->n == q->size) {
                size_t size = MAX(2 * q->size, (size_t) 16);
                Request *all = calloc(size, sizeof(*all));

                if (!all)
                        return false;
                for (size_t i = 0; i < q->n; i++)
                        all[i] = q->all[(q->first + i) % q->size];
                free(q->all);
                *q = (Requests){.all = all, .size = size, .n = q->n};
        }
        q->all[(q->first + q->n++) % q->size] = request;
        return true;
}

static Request requests_pop(Requests *q) {
        Request request = q->all[q->first];

        q->first = (q->first + 1) % q->size;
        q->n--;
        return request;
}

/* At random, so that the GPU would be busy for the job's part of the time. */
static void plan_request(Worker *w, uint64_t from) {
        double mean = (double) FLEET_REQUEST_NS * 100 / w->job->of->percent;

        w->next_ns = from + 1 + (uint64_t) (random_exponential(&w->random) * mean);
        if (w->next_ns > w->end_ns)
                w->next_ns = NSEC_INFINITY;
}

static void count_behind(const Gpu *g, const Request *request, uint64_t took_ns) {
        uint64_t behind = g->low_ns - request->low_ns;
        FleetResult *r = g->fleet->result;

        if (g->wanted_ns == request->wanted_ns)
                return;
        histogram_add(&r->behind, behind);
        r->n_behind_too_long += behind > fleet_bound_behind(&g->fleet->config, g->fleet->bound_ns, took_ns);
}

static void request_over(Worker *w, uint64_t now) {
        FleetResult *r = w->gpu->fleet->result;
        Request request = requests_pop(&w->requests);
        uint64_t took = now - request.came_ns;
        double slowdown = (double) took / FLEET_REQUEST_NS;

        histogram_add(&r->requests, ns_sub(took, FLEET_REQUEST_NS));
        count_behind(w->gpu, &request, took);
        r->classes[CLASS_INTERACTIVE].slowdown += slowdown;
        r->classes[CLASS_INTERACTIVE].slowdown_max = MAX(r->classes[CLASS_INTERACTIVE].slowdown_max, slowdown);
        r->classes[CLASS_INTERACTIVE].n++;
        if (w->requests.n > 0)
                w->left_ns = FLEET_REQUEST_NS; /* it goes on with the next */
        else
                gpu_worker_idle(w->gpu, w, now);
}

/* --- ends --- */

static void worker_over(Worker *w) {
        Job *j = w->job;
        Fleet *f = w->gpu->fleet;

        if (++j->n_over < j->of->n_gpus)
                return;
        j->next = f->ended;
        f->ended = j;
}

/* --- gangs --- */

/* The last worker of a step has the others begin the next. */
static void step_over(Worker *w, uint64_t now) {
        Job *j = w->job;

        w->waits_since_ns = now;
        gpu_worker_idle(w->gpu, w, now);
        if (++j->n_waiting < j->of->n_gpus)
                return;
        j->n_waiting = 0;
        for (uint32_t i = 0; i < j->of->n_gpus; i++) {
                j->workers[i].begins = true;
                fleet_look_at(j->workers[i].gpu, now);
        }
}

static void step_begin(Worker *w, uint64_t now) {
        uint64_t step = MIN(w->work_left_ns, FLEET_STEP_NS);

        w->begins = false;
        w->waited_ns += now - w->waits_since_ns;
        if (w->job->of->n_gpus == 1)
                step = w->work_left_ns;
        if (step == 0) {
                worker_over(w);
                return;
        }
        w->work_left_ns -= step;
        gpu_worker_ready(w->gpu, w, step, now);
}

void worker_burst_over(Worker *w, uint64_t now) {
        if (worker_is_service(w))
                request_over(w, now);
        else
                step_over(w, now);
}

void worker_look(Worker *w, uint64_t now) {
        if (w->begins)
                step_begin(w, now);
        if (!worker_is_service(w))
                return;
        while (w->next_ns <= now) {
                if (!requests_push(&w->requests, (Request){w->next_ns, w->gpu->low_ns, w->gpu->wanted_ns}))
                        w->gpu->fleet->failed = true;
                else if (!w->ready)
                        gpu_worker_ready(w->gpu, w, FLEET_REQUEST_NS, now);
                plan_request(w, w->next_ns);
        }
        if (w->end_ns <= now && !w->ready) {
                w->end_ns = NSEC_INFINITY;
                worker_over(w);
        }
}

uint64_t worker_next(const Worker *w) {
        if (w->begins)
                return w->gpu->now_ns;
        if (!worker_is_service(w))
                return NSEC_INFINITY;
        return w->ready ? w->next_ns : MIN(w->next_ns, w->end_ns);
}

/* --- a job --- */

int job_place(Job *j, Gpu **gpus, uint64_t now) {
        const TraceJob *of = j->of;

        j->workers = calloc(of->n_gpus, sizeof(*j->workers));
        if (!j->workers)
                return -ENOMEM;
        j->placed_ns = now;
        for (uint32_t i = 0; i < of->n_gpus; i++) {
                Worker *w = j->workers + i;

                *w = (Worker){
                                .job = j,
                                .gpu = gpus[i],
                                .launch_ns = of->class == CLASS_INTERACTIVE ? FLEET_REQUEST_LAUNCH_NS : of->launch_ns,
                                .random = {gpus[i]->fleet->config.seed + of->submit_ns + of->user},
                                .next_ns = NSEC_INFINITY,
                                .end_ns = NSEC_INFINITY,
                };
                if (worker_is_service(w)) {
                        w->end_ns = now + of->duration_ns;
                        plan_request(w, now);
                } else {
                        w->work_left_ns = of->duration_ns;
                        w->waits_since_ns = now;
                        w->begins = true;
                }
                int r = gpu_add(gpus[i], w, now);
                if (r < 0)
                        return r;
        }
        return 0;
}

void job_free(Job *j) {
        for (uint32_t i = 0; j->workers && i < j->of->n_gpus; i++)
                free(j->workers[i].requests.all);
        free(j->workers);
        j->workers = NULL;
}
