/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A made-up trace, in PAI's columns
 *
 * Jobs come at random. Sizes are like Philly's, where most jobs have one GPU, and a few span hosts; lengths are
 * log-normal, many short and a few long. Services stay from the first minute to the end.
 */

#include <inttypes.h>
#include <math.h>

#include "tools/fleet/random.h"
#include "tools/fleet/trace.h"
#include "trace-make.h"

#define USERS        16U
#define LENGTH_SIGMA 1.0
#define SHORTEST_S   5.0

/* GPUs, and how many of a hundred jobs have so many. */
static const struct { uint32_t gpus, percent; } sizes[] = {{1, 74}, {2, 8}, {4, 7}, {8, 7}, {16, 3}, {32, 1}};

static void write_job(FILE *jobs, FILE *tasks, uint64_t id, uint64_t user, const char *task, uint32_t n,
                uint32_t percent, double submit, double length) {
        (void) fprintf(jobs, "job%06" PRIu64 ",inst%06" PRIu64 ",user%02" PRIu64 ",Terminated,%.3f,%.3f\n", id, id,
                        user, submit, submit + length);
        (void) fprintf(tasks, "job%06" PRIu64 ",%s,%u.0,Terminated,%.3f,%.3f,600.0,29.3,%u.0,MISC\n", id, task, n,
                        submit, submit + length, percent);
}

static uint32_t draw_size(Random *random, uint32_t largest) {
        uint64_t at = random_next(random) % 100;
        size_t i = 0;

        for (; i + 1 < ELEMENTSOF(sizes) && at >= sizes[i].percent; i++)
                at -= sizes[i].percent;
        while (i > 0 && sizes[i].gpus > largest)
                i--;
        return sizes[i].gpus;
}

/* Percent of a GPU. */
static uint32_t draw_load(Random *random) {
        return 10 + (uint32_t) (random_next(random) % 4) * 10;
}

int trace_make_pai(const TraceShape *s, FILE *jobs, FILE *tasks) {
        Random random = {s->seed};
        double length = (double) s->length_ns / NSEC_PER_SEC, mean = (double) s->mean_job_ns / NSEC_PER_SEC;
        double work = length * s->n_gpus * s->training / 100, done = 0;
        uint32_t largest = MAX(s->n_gpus * s->largest_percent / 100, 1U);
        uint64_t id = 0;

        for (uint32_t i = 0; i < s->n_gpus * s->services / 100; i++) {
                double begin = random_unit(&random) * length / 20;

                write_job(jobs, tasks, id++, random_next(&random) % USERS, "evaluator", 1, draw_load(&random), begin,
                                length - begin);
        }
        while (done < work) {
                uint32_t n = draw_size(&random, largest);
                double took = exp(random_normal(&random) * LENGTH_SIGMA - LENGTH_SIGMA * LENGTH_SIGMA / 2) * mean;

                took = CLAMP(took, SHORTEST_S, length / 2);
                write_job(jobs, tasks, id++, random_next(&random) % USERS, "worker", n, 100,
                                random_unit(&random) * length, took);
                done += took * n;
        }
        return ferror(jobs) || ferror(tasks) ? -EIO : 0;
}

int trace_add_services(const TraceShape *s, Trace *t) {
        uint64_t first = NSEC_INFINITY, last = 0;
        Random random = {s->seed};

        for (size_t i = 0; i < t->n; i++) {
                first = MIN(first, t->jobs[i].submit_ns);
                last = MAX(last, t->jobs[i].submit_ns);
        }
        double begin = (double) first / NSEC_PER_SEC, length = (double) ns_sub(last, first) / NSEC_PER_SEC;
        for (uint32_t i = 0; i < s->n_gpus * s->services / 100 && length > 0; i++) {
                double wait = random_unit(&random) * length / 20, load = draw_load(&random) / 100.0;
                char user[32];

                (void) snprintf(user, sizeof(user), "user%02u", (unsigned) (random_next(&random) % USERS));
                int r = trace_add(t, "service", user, load, begin + wait, length - wait);
                if (r < 0)
                        return r;
        }
        return 0;
}
