/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an event costs each policy, with up to 100 devices and 10,000 queues
 *
 * Half of the queues have work. Two kinds of events alternate, 10 us apart: a random queue without work gets some, and
 * the queue that runs on that device has no more work. An event ends with the decision of the device; where the policy
 * goes over several devices, with the decisions of those that are told of it. Eight queues are below one node each;
 * their priorities, weights, deadlines and all the rest are random.
 *
 * CPU time is printed, and depends on the machine. What is asserted is free of noise: steps of the balanced trees and
 * reported grants per event. Each time is the better of two runs. --check only asserts, over fewer events.
 */

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "policy/order.h"

#define EVENTS       40000U
#define CHECK_EVENTS 2000U
#define STEP_NS      (10 * NSEC_PER_USEC)
#define N_BELOW      8U
#define N_DEVICES    100U
#define N_QUEUES     10000U

uint64_t bench_avl_steps;
static uint64_t n_grants;

typedef struct BenchQueue {
        PolicyEntity *entity;
        struct BenchDevice *device;
        bool ready, granted;
} BenchQueue;

typedef struct BenchDevice {
        Policy *policy;
        PolicyNode *nodes[N_QUEUES / N_BELOW];
        size_t n_nodes, n_queues;
        BenchQueue *runner; /* was granted last; NULL: nobody was */
        int level, outside;
} BenchDevice;

/* State of one measurement. */
typedef struct Load {
        const PolicyOps *ops;
        BenchDevice *devices;
        BenchQueue *queues;
        size_t n_devices, n_queues;
        uint64_t now_ns, state;
} Load;

typedef struct Result {
        double us, steps, grants, most_steps;
} Result;

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        BenchQueue *q = owner;

        n_grants++;
        q->granted = grant->verdict == VERDICT_RUN;
        if (q->granted)
                q->device->runner = q;
}

static uint64_t random_below(Load *l, uint64_t limit) {
        l->state = l->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (l->state >> 33) % limit;
}

static PolicySettings settings_make(Load *l) {
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.priority = (int) random_below(l, 4);
        s.weight = 1 + (uint32_t) random_below(l, 1000);
        s.deadline_us = random_below(l, 4) == 0 ? 0 : 1000 + (uint32_t) random_below(l, 100000);
        s.laxity_us = random_below(l, 2) == 0 ? 0 : 1000 + (uint32_t) random_below(l, 20000);
        s.critical = 4 + (int) random_below(l, 4);
        s.utilization = 1 + (uint32_t) random_below(l, 100);
        s.cpu_priority = (int) random_below(l, 40) - 20;
        s.active = random_below(l, 10) == 0;
        s.party.top = random_below(l, 10);
        s.party.owner = random_below(l, 100);
        return s;
}

/* Over all devices one pass finds the highest level and the one after it; service/core/levels.c has the same cost. */
static void tell_levels(Load *l) {
        int highest = POLICY_LEVEL_NONE, next = POLICY_LEVEL_NONE;
        const BenchDevice *owner = NULL;

        for (size_t i = 0; i < l->n_devices; i++) {
                const BenchDevice *d = l->devices + i;

                if (d->level > highest) {
                        next = highest;
                        highest = d->level;
                        owner = d;
                } else
                        next = MAX(next, d->level);
        }
        for (size_t i = 0; i < l->n_devices; i++) {
                BenchDevice *d = l->devices + i;
                int outside = d == owner ? next : highest;

                if (outside == d->outside)
                        continue;
                d->outside = outside;
                l->ops->outside(d->policy, outside, l->now_ns);
                (void) l->ops->dispatch(d->policy, l->now_ns);
        }
}

static void decide(Load *l, BenchDevice *d) {
        (void) l->ops->dispatch(d->policy, l->now_ns);
        if (!policy_is_global(l->ops))
                return;
        int level = l->ops->level(d->policy);
        if (level == d->level)
                return;
        d->level = level;
        tell_levels(l);
}

static void toggle(Load *l, BenchQueue *q) {
        (q->ready ? l->ops->entity_idle : l->ops->entity_ready)(q->entity, l->now_ns);
        q->ready = !q->ready;
        if (q->ready && q->granted)
                q->device->runner = q;
}

/* One queue gets work; then the queue that runs on that device has no more. */
static void run(Load *l, size_t n_events, uint64_t *ret_most_steps) {
        BenchQueue *q = l->queues;

        *ret_most_steps = 0;
        for (size_t i = 0; i < n_events; i++) {
                uint64_t before = bench_avl_steps;
                BenchQueue *runner = q->device->runner;

                if (i % 2 == 1 && runner && runner->ready && runner->granted)
                        q = runner;
                else
                        do
                                q = l->queues + random_below(l, l->n_queues);
                        while (q->ready != (i % 2 == 1));
                l->now_ns += STEP_NS;
                toggle(l, q);
                decide(l, q->device);
                *ret_most_steps = MAX(*ret_most_steps, bench_avl_steps - before);
        }
}

static void queue_make(Load *l, size_t i) {
        BenchQueue *q = l->queues + i;
        BenchDevice *d = l->devices + i % l->n_devices;
        const PolicySettings s = settings_make(l);

        if (d->n_queues++ % N_BELOW == 0) {
                PolicyNodeSettings n = POLICY_NODE_SETTINGS_DEFAULT;

                n.weight = s.weight;
                if (l->ops->node_new(d->policy, NULL, &n, l->now_ns, &d->nodes[d->n_nodes++]) < 0)
                        abort();
        }
        *q = (BenchQueue){.device = d, .granted = true};
        if (l->ops->entity_new(d->policy, d->nodes[d->n_nodes - 1], q, &s, l->now_ns, &q->entity) < 0)
                abort();
        if (random_below(l, 2) == 0)
                toggle(l, q);
}

static Load load_make(const PolicyOps *ops, size_t n_devices, size_t n_queues) {
        const PolicyConfig config = POLICY_CONFIG_DEFAULT;
        Load l = {
                        .ops = ops,
                        .devices = calloc(n_devices, sizeof(*l.devices)),
                        .queues = calloc(n_queues, sizeof(*l.queues)),
                        .n_devices = n_devices,
                        .n_queues = n_queues,
                        .now_ns = NSEC_PER_SEC,
                        .state = 7,
        };

        if (!l.devices || !l.queues)
                abort();
        for (size_t i = 0; i < n_devices; i++) {
                l.devices[i].level = l.devices[i].outside = POLICY_LEVEL_NONE;
                if (ops->new (&config, &(PolicyCallbacks){.grant = on_grant}, &l.devices[i].policy) < 0)
                        abort();
        }
        for (size_t i = 0; i < n_queues; i++)
                queue_make(&l, i);
        for (size_t i = 0; i < n_devices; i++)
                decide(&l, l.devices + i);
        return l;
}

static void load_free(Load *l) {
        for (size_t i = 0; i < l->n_queues; i++)
                (void) l->ops->entity_free(l->queues[i].entity, l->now_ns);
        for (size_t i = 0; i < l->n_devices; i++) {
                BenchDevice *d = l->devices + i;

                while (d->n_nodes > 0)
                        (void) l->ops->node_free(d->nodes[--d->n_nodes], l->now_ns);
                (void) l->ops->free(d->policy);
        }
        free(l->devices);
        free(l->queues);
}

/* CPU time of this thread, which other work of the machine does not change. */
static uint64_t cpu_ns(void) {
        struct timespec t;

        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
                abort();
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

static Result measure(const PolicyOps *ops, size_t n_devices, size_t n_queues, size_t n_events) {
        Load l = load_make(ops, n_devices, n_queues);
        uint64_t most;

        /* Events that come to all queues at once at the start, like the end of their laxity, are over after this. */
        run(&l, n_events, &most);
        uint64_t begin = cpu_ns(), steps = bench_avl_steps, grants = n_grants;
        run(&l, n_events, &most);
        Result r = {
                        .us = (double) (cpu_ns() - begin) / (double) n_events / 1e3,
                        .steps = (double) (bench_avl_steps - steps) / (double) n_events,
                        .grants = (double) (n_grants - grants) / (double) n_events,
                        .most_steps = (double) most,
        };
        load_free(&l);
        return r;
}

static Result measure_best(const PolicyOps *ops, size_t n_devices, size_t n_queues) {
        Result a = measure(ops, n_devices, n_queues, EVENTS), b = measure(ops, n_devices, n_queues, EVENTS);

        return a.us < b.us ? a : b;
}

/* Checks that an event costs a few walks along trees of height 1.44 * log2(n), on two levels of nodes, and as much for
 * each device that was told a level. A single event may cost more when several alarms are due at once. */
static bool check(const PolicyOps *ops, size_t n_devices, size_t n_queues, const Result *r) {
        double n_asked = policy_is_global(ops) ? (double) n_devices : 1;
        double walk = log2((double) n_queues / (double) n_devices + 2);

        if (r->steps <= 16 * walk + 16 && (ops->ordering->tick || r->most_steps <= n_asked * (40 * walk + 40)) &&
                        r->grants <= 2 * POLICY_ADVANCE_MAX * n_asked)
                return true;
        fprintf(stderr, "%s: %zu queues on %zu devices take %.1f steps (at most %.0f) and %.2f grants an event\n",
                        ops->name, n_queues, n_devices, r->steps, r->most_steps, r->grants);
        return false;
}

int main(int argc, char *argv[]) {
        static const struct {
                size_t n_devices, n_queues;
        } sizes[] = {
                        {1, 10},
                        {1, 100},
                        {1, 1000},
                        {1, 10000},
                        {N_DEVICES, 1000},
                        {N_DEVICES, N_QUEUES},
        };
        bool only_check = argc > 1 && streq(argv[1], "--check"), ok = true;
        const char *separator = "";

        if (!only_check)
                printf("[");
        for (const PolicyOps *const *ops = policy_all; *ops; ops++)
                for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                        size_t n_devices = sizes[i].n_devices, n_queues = sizes[i].n_queues;

                        Result r = only_check ? measure(*ops, n_devices, n_queues, CHECK_EVENTS)
                                              : measure_best(*ops, n_devices, n_queues);

                        ok = check(*ops, n_devices, n_queues, &r) && ok;
                        if (only_check)
                                continue;
                        printf("%s{\"policy\": \"%s\", \"devices\": %zu, \"queues\": %zu, \"us\": %.3f, "
                               "\"steps\": %.2f, \"most_steps\": %.0f, \"grants\": %.2f}",
                                        separator, (*ops)->name, n_devices, n_queues, r.us, r.steps, r.most_steps,
                                        r.grants);
                        separator = ",\n";
                }
        if (!only_check)
                printf("]\n");
        return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
