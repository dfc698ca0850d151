/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues that are unmapped and mapped: which work stops, survives or is lost, and which processes pay for it
 */

#include <inttypes.h>

#include "harness.h"
#include "kfdsim.h"

#define LONG_NS (200 * NSEC_PER_MSEC)

static void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) nanosleep(&ts, NULL);
}

static bool wait_executed(const AqlQueue *q, uint64_t n) {
        return poll_until(aql_queue_executed(q) >= n);
}

/* Launches a short dispatch, and a long one behind it; returns when the long one has begun. */
static uint64_t begin_long(AqlQueue *q, uint64_t duration_ns) {
        uint64_t n = aql_queue_executed(q);

        check(aql_dispatch(q, 1000, NULL) == 0 && aql_dispatch(q, duration_ns, NULL) == 0);
        aql_ring(q);
        check(wait_executed(q, n + 1));
        return now_ns();
}

/* A case whose dispatch may be over before it should, because the machine keeps this program for so long, says nothing
 * then: it is made again with one that takes twice as long. What is wrong is so with each of them. */
static void repeat_longer(bool (*is_right)(AqlQueue *q, uint64_t duration_ns)) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);
        uint64_t duration_ns = LONG_NS;

        while (!is_right(q, duration_ns))
                check((duration_ns *= 2) <= 8 * LONG_NS);
        queue_close_clean(q);
}

/* A dispatch is stopped at half its time; later it needs about the other half. */
static bool stops_halfway(AqlQueue *q, uint64_t duration_ns) {
        uint64_t n = aql_queue_executed(q), start = now_ns();

        (void) begin_long(q, duration_ns);
        nap(duration_ns / 2);
        check(aql_queue_update(q, 0) == 0);
        uint64_t ran = now_ns() - start;
        if (ran >= duration_ns) { /* it may have waited for its end */
                check(aql_queue_update(q, 100) == 0);
                check(wait_executed(q, n + 2));
                return false;
        }
        nap(2 * duration_ns);
        check(aql_queue_executed(q) == n + 1 && aql_queue_backlog(q) == 1);

        uint64_t resumed = now_ns();
        check(aql_queue_update(q, 100) == 0);
        check(wait_executed(q, n + 2));
        uint64_t rest = now_ns() - resumed;
        printf("# ran %" PRIu64 " ms, stopped, then %" PRIu64 " ms\n", ran / NSEC_PER_MSEC, rest / NSEC_PER_MSEC);
        check(ran + rest > duration_ns * 9 / 10); /* no work was skipped */
        return rest < duration_ns * 9 / 10;       /* and not all was done again */
}

static void case_cwsr(void) {
        repeat_longer(stops_halfway);
}

static void case_drain(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        uint64_t start = begin_long(q, LONG_NS);
        check(aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        check(aql_queue_update(q, 0) == 0);
        check(now_ns() - start > LONG_NS * 9 / 10);
        check(aql_queue_executed(q) == 2);
        nap(20 * NSEC_PER_MSEC);
        check(aql_queue_executed(q) == 2);
        check(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        queue_close_clean(q);
}

/* The dispatch takes longer than the driver waits for its firmware. */
static bool times_out(AqlQueue *q, uint64_t duration_ns) {
        uint64_t n = aql_queue_executed(q), start = now_ns();

        (void) begin_long(q, duration_ns);
        int r = aql_queue_update(q, 0);
        bool in_time = now_ns() - start < duration_ns;
        check(r == -ETIME || !in_time);
        check(wait_executed(q, n + 2));
        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
        aql_ring(q);
        return in_time;
}

static void case_timeout(void) {
        repeat_longer(times_out);
}

static void case_doorbell_lost(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        check(aql_queue_update(q, 0) == 0);
        check(aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        check(aql_queue_update(q, 100) == 0);
        nap(30 * NSEC_PER_MSEC);
        check(aql_queue_executed(q) == 0);
        aql_ring(q); /* with the same value */
        check(wait_executed(q, 1));

        /* What was announced before is known. */
        (void) begin_long(q, NSEC_PER_MSEC);
        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
        queue_close_clean(q);
}

static void case_doorbell_kept(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        check(aql_queue_update(q, 0) == 0);
        check(aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        nap(10 * NSEC_PER_MSEC);
        check(aql_queue_executed(q) == 0);
        check(aql_queue_update(q, 100) == 0);
        check(wait_executed(q, 1));
        queue_close_clean(q);
}

static void case_created_stopped(void) {
        AqlDevice d = device_open(0);
        AqlOptions o = {.created_stopped = true};
        AqlQueue *q;

        check(aql_queue_create(&d, &o, &q) == 0);
        check(aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        nap(20 * NSEC_PER_MSEC);
        check(aql_queue_executed(q) == 0);
        check(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        queue_close_clean(q);
}

static void case_destroy_stopped(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d), *other = queue_open(&d);

        (void) begin_long(q, LONG_NS);
        check(aql_queue_update(q, 0) == 0);
        check(aql_queue_destroy(q) == 0);
        (void) begin_long(other, 1000);
        queue_close_clean(other);
}

/* Many cycles, with work that is always under way. */
static void case_cycles(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q[2] = {queue_open(&d), queue_open(&d)};
        uint32_t random = 12345;

        for (unsigned i = 0; i < 400; i++) {
                random = random * 1664525 + 1013904223;
                AqlQueue *x = q[random >> 16 & 1];
                for (unsigned k = 0; k < (random >> 20 & 7); k++)
                        (void) aql_dispatch(x, UINT64_C(1000) * (random >> 24), NULL);
                aql_ring(x);
                check(aql_queue_update(x, 0) == 0);
                uint64_t n = aql_queue_executed(x);
                (void) usleep(random >> 18 & 127);
                check(aql_queue_executed(x) == n);
                check(aql_queue_update(x, 100) == 0);
                aql_ring(x);
        }
        queue_close_clean(q[0]);
        queue_close_clean(q[1]);
}

/* --- what a map finds --- */

/* A place that is taken, and has no packet yet, is found by each map, of whatever queue of the GPU. */
static void maps_find(const AqlDevice *d, AqlQueue *moved, AqlQueue *late) {
        uint64_t torn = kfdsim_torn(d->gpu_id);

        check(aql_dispatch(late, 1000, NULL) == 0);
        check(aql_queue_update(moved, 100) == 0);
        check(kfdsim_torn(d->gpu_id) == torn);
        check(wait_executed(late, 1)); /* no doorbell was rung: mapping the queue has read the write index */
        aql_reserve(late);
        check(aql_queue_update(moved, 100) == 0);
        check(kfdsim_torn(d->gpu_id) == torn + 1);
        check(aql_dispatch(late, 1000, NULL) == 0);
        aql_ring(late);
        queue_close_clean(late);
}

static void case_torn(void) {
        AqlDevice d = device_open(0);
        AqlQueue *moved = queue_open(&d);

        maps_find(&d, moved, queue_open(&d));
        AqlQueue *late = queue_open(&d);
        check(aql_queue_update(late, 0) == 0);
        check(aql_queue_update(late, 100) == 0);
        maps_find(&d, late, late);
        check(aql_queue_destroy(moved) == 0);
}

/* MES reads the write index of the queue that it moves, and of no other. */
static void case_torn_mes(void) {
        AqlDevice d = device_open(0);
        AqlQueue *moved = queue_open(&d), *late = queue_open(&d);

        aql_reserve(late);
        check(aql_queue_update(moved, 0) == 0 && aql_queue_update(moved, 100) == 0);
        check(kfdsim_torn(d.gpu_id) == 0);
        check(aql_queue_update(late, 0) == 0 && aql_queue_update(late, 100) == 0);
        check(kfdsim_torn(d.gpu_id) == 1);
}

/* --- who pays --- */

static double bystander_rate(const Busy *b, uint64_t n, uint64_t start) {
        return (double) (b->n_executed - n) / (double) (now_ns() - start);
}

/* How much of another process's work went on during many updates, in percent of what goes on in as long a time without
 * updates: both are slower on a busy machine. */
static unsigned bystander_share(void) {
        Busy *b = shared_new(sizeof(*b));
        b->duration_ns = 500000;
        pid_t pid = busy_start(b);
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        uint64_t maps = kfdsim_maps(d.gpu_id), n = b->n_executed, start = now_ns();
        for (unsigned i = 0; i < 40; i++)
                check(aql_queue_update(q, i % 2 ? 100 : 0) == 0);
        uint64_t took = now_ns() - start;
        double beside = bystander_rate(b, n, start);
        check(kfdsim_maps(d.gpu_id) == maps + 40);

        n = b->n_executed;
        start = now_ns();
        while (now_ns() - start < took || b->n_executed == n)
                (void) usleep(200);
        unsigned share = (unsigned) (100 * beside / bystander_rate(b, n, start));
        printf("# %u %%\n", share);
        busy_stop(b, pid);
        return share;
}

static void case_cost_hws(void) {
        check(bystander_share() < 50);
}

static void case_cost_mes(void) {
        check(bystander_share() > 50);
}

static void case_cost_of_nothing(void) {
        AqlDevice hws = device_open(0), mes = device_open(1);
        AqlQueue *q[2] = {queue_open(&hws), queue_open(&mes)};
        uint64_t before[2] = {kfdsim_maps(hws.gpu_id), kfdsim_maps(mes.gpu_id)};

        for (size_t i = 0; i < 2; i++)
                check(aql_queue_update(q[i], 100) == 0);
        check(kfdsim_maps(hws.gpu_id) == before[0] + 1); /* nothing was new, and everybody paid */
        check(kfdsim_maps(mes.gpu_id) == before[1]);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"cwsr", NULL, NULL, case_cwsr},
                        {"drain", NULL, "cwsr=0", case_drain},
                        {"timeout", NULL, "cwsr=0,timeout-ms=40", case_timeout},
                        {"doorbell-lost", NULL, "strict=1", case_doorbell_lost},
                        {"doorbell-kept", NULL, "strict=0", case_doorbell_kept},
                        {"torn", NULL, "strict=0", case_torn},
                        {"torn-mes", "gfx1100", "strict=0", case_torn_mes},
                        {"created-stopped", NULL, NULL, case_created_stopped},
                        {"destroy-stopped", NULL, NULL, case_destroy_stopped},
                        {"cycles", NULL, "map-us=10", case_cycles},
                        {"cost-hws", "gfx90a", "map-us=5000", case_cost_hws},
                        {"cost-mes", "gfx1100", "map-us=5000", case_cost_mes},
                        {"cost-of-nothing", "gfx90a,gfx1100", NULL, case_cost_of_nothing},
        };
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
