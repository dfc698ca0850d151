/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Simulated GPUs execute dispatches once, in order, for their time, on each GPU and queue; and a proof shows when they
 * do not
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "hal/kfd-abi.h"
#include "harness.h"

static uint64_t run_dispatches(AqlQueue *q, unsigned n, uint64_t duration_ns) {
        uint64_t start = now_ns();

        for (unsigned i = 0; i < n; i++)
                check(aql_dispatch(q, duration_ns, NULL) == 0);
        aql_ring(q);
        check(aql_queue_wait(q, now_ns() + TEST_DEADLINE_NS) == 0);
        return now_ns() - start;
}

static void case_once_in_order(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        for (unsigned round = 0; round < 12; round++)
                (void) run_dispatches(q, 200, 5000);
        AqlReport r = aql_queue_report(q);
        check(r.n_dispatched == 2400 && r.n_executed == 2400 && aql_report_is_clean(&r));
        queue_close_clean(q);
}

/* Two threads ring, and the smaller number comes last: it takes nothing back. */
static void case_rings_cross(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        for (unsigned i = 0; i < 100; i++) {
                check(aql_dispatch(q, 5000, NULL) == 0 && aql_dispatch(q, 5000, NULL) == 0);
                aql_ring(q);
                aql_ring_late(q);
                check(aql_queue_wait(q, now_ns() + TEST_DEADLINE_NS) == 0);
        }
        queue_close_clean(q);
}

static void ring_at_an_invalid_packet(void *userdata) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        aql_reserve(q);
        aql_ring_unwritten(q);
        for (;;)
                (void) pause();
}

/* A process that announces packets that no thread has written is ended. */
static void case_unwritten(void) {
        check(child_wait(child_start(ring_at_an_invalid_packet, NULL)) == -SIGABRT);
}

/* A packet is executed as it was when it was announced: if a program writes its header first, and the rest after the
 * ring, the former content of the place is executed. */
static void case_fetched(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d), *other = queue_open(&d);
        AqlCompletion *go, *done;

        check(aql_completion_create(&d, 1, false, &go) == 0 && aql_completion_create(&d, 1, false, &done) == 0);
        (void) run_dispatches(q, 1, 5000);
        check(aql_barrier(q, false, &go, 1, NULL) == 0);
        aql_ring(q);
        check(aql_dispatch(q, 5000, done) == 0);
        uint64_t number = aql_newest(q)->dispatch.reserved2;
        aql_ring(q);
        for (unsigned i = 0; i < 3; i++)
                (void) run_dispatches(other, 1, 1000); /* the queues have their turns: this one was looked at */
        aql_newest(q)->dispatch.reserved2 = number - 1;
        aql_completion_set(go, 0);
        check(aql_completion_wait(done, now_ns() + TEST_DEADLINE_NS) == 0);
        queue_close_clean(q);
        queue_close_clean(other);
        aql_completion_destroy(go);
        aql_completion_destroy(done);
}

static void case_report(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);
        (void) run_dispatches(q, 20, 5000);
        AqlProof *p = aql_queue_proof(q);

        AqlReport r = aql_queue_report(q);
        check(aql_report_is_clean(&r));
        p->seen[5] = 0; /* as if it had never been executed */
        r = aql_queue_report(q);
        check(r.n_lost == 1 && r.n_late == 0 && r.n_doubled == 0 && r.n_unfinished == 0 && !aql_report_is_clean(&r));
        aql_prove(p, 5);
        r = aql_queue_report(q);
        check(r.n_lost == 0 && r.n_late == 1 && r.n_doubled == 0 && !aql_report_is_clean(&r));
        aql_prove(p, 7);
        r = aql_queue_report(q);
        check(r.n_lost == 0 && r.n_late == 1 && r.n_doubled == 1 && !aql_report_is_clean(&r));

        check(aql_dispatch(q, 1000, NULL) == 0 && aql_dispatch(q, 1000, NULL) == 0); /* and no ring */
        r = aql_queue_report(q);
        check(r.n_unfinished == 2 && r.n_lost == 0);
}

static void case_ratio(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        (void) run_dispatches(q, 2, NSEC_PER_MSEC);
        uint64_t one = NSEC_INFINITY, four = NSEC_INFINITY;
        for (unsigned round = 0; round < 5; round++) { /* the shortest: without pauses of the machine */
                one = MIN(one, run_dispatches(q, 20, NSEC_PER_MSEC));
                four = MIN(four, run_dispatches(q, 20, 4 * NSEC_PER_MSEC));
        }
        printf("# 20 of 1 ms: %" PRIu64 " us, 20 of 4 ms: %" PRIu64 " us\n", one / 1000, four / 1000);
        check(four * 10 > one * 25 && four < one * 6);
        queue_close_clean(q);
}

static void case_queues_share(void) {
        AqlDevice d = device_open(0);
        AqlQueue *a = queue_open(&d), *b = queue_open(&d);

        for (unsigned i = 0; i < 50; i++)
                check(aql_dispatch(a, NSEC_PER_MSEC, NULL) == 0 && aql_dispatch(b, NSEC_PER_MSEC, NULL) == 0);
        uint64_t start = now_ns();
        aql_ring(a);
        aql_ring(b);
        check(poll_until(aql_queue_backlog(a) + aql_queue_backlog(b) == 0));
        /* The dispatches run one after the other: side by side they would take half of that. */
        check(now_ns() - start >= 95 * NSEC_PER_MSEC);
        queue_close_clean(a);
        queue_close_clean(b);
}

/* Whether three GPUs run 60 dispatches each in less than twice the time that one needs for as many. */
static bool run_beside(AqlQueue *q[static 3], uint64_t duration_ns) {
        uint64_t alone = run_dispatches(q[0], 60, duration_ns);

        for (unsigned i = 0; i < 3; i++) {
                for (unsigned k = 0; k < 60; k++)
                        check(aql_dispatch(q[i], duration_ns, NULL) == 0);
                aql_ring(q[i]);
        }
        uint64_t start = now_ns();
        check(poll_until(aql_queue_backlog(q[0]) + aql_queue_backlog(q[1]) + aql_queue_backlog(q[2]) == 0));
        return now_ns() - start < 2 * alone;
}

static void case_several_gpus(void) {
        AqlDevice d[3];
        AqlQueue *q[3];
        uint64_t duration_ns = 2 * NSEC_PER_MSEC;

        for (unsigned i = 0; i < 3; i++) {
                d[i] = device_open(i);
                q[i] = queue_open(d + i);
                check(i == 0 || d[i].gpu_id != d[i - 1].gpu_id);
                check(i == 0 || !streq(d[i].pci, d[i - 1].pci));
        }
        /* A machine may keep this program for as long as it needs alone: the longer that is, the less it matters. */
        while (!run_beside(q, duration_ns))
                check((duration_ns *= 2) <= 16 * NSEC_PER_MSEC);
        for (unsigned i = 0; i < 3; i++)
                queue_close_clean(q[i]);
}

static void case_barriers(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q[2] = {queue_open(&d), queue_open(&d)};
        AqlCompletion *c[3];

        for (size_t i = 0; i < 3; i++)
                check(aql_completion_create(&d, 1, i == 0, c + i) == 0);

        /* q1's dispatch waits for q0's, and for what the host says. */
        AqlCompletion *both[] = {c[0], c[1]};
        check(aql_barrier(q[1], false, both, 2, NULL) == 0 && aql_dispatch(q[1], 1000, c[2]) == 0);
        aql_ring(q[1]);
        check(aql_dispatch(q[0], 1000, c[0]) == 0);
        aql_ring(q[0]);
        check(aql_completion_wait(c[0], now_ns() + TEST_DEADLINE_NS) == 0);
        check(aql_completion_wait(c[2], now_ns() + 30 * NSEC_PER_MSEC) < 0 && aql_queue_executed(q[1]) == 0);
        aql_completion_set(c[1], 0);
        check(aql_completion_wait(c[2], now_ns() + TEST_DEADLINE_NS) == 0);

        /* Any of two is enough. */
        aql_completion_set(c[0], 1);
        aql_completion_set(c[2], 1);
        check(aql_barrier(q[0], true, both, 2, NULL) == 0 && aql_dispatch(q[0], 1000, c[2]) == 0);
        aql_ring(q[0]);
        check(aql_completion_wait(c[2], now_ns() + TEST_DEADLINE_NS) == 0);
        for (size_t i = 0; i < 3; i++)
                aql_completion_destroy(c[i]);
        queue_close_clean(q[0]);
        queue_close_clean(q[1]);
}

static void case_events(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);
        AqlCompletion *c;

        check(aql_completion_create(&d, 1, true, &c) == 0);
        for (unsigned i = 0; i < 50; i++) {
                aql_completion_set(c, 1);
                check(aql_dispatch(q, UINT64_C(100000) * (i % 5), c) == 0);
                aql_ring(q);
                check(aql_completion_wait(c, now_ns() + TEST_DEADLINE_NS) == 0 && aql_queue_executed(q) == i + 1);
        }
        aql_completion_destroy(c);
        queue_close_clean(q);
}

/* --- what the kernel says about queues --- */

static unsigned read_attribute(pid_t pid, uint32_t queue, const char *name) {
        char path[128];
        unsigned n = UINT32_MAX;

        (void) snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/queues/%u/%s", (int) pid, queue, name);
        FILE *f = fopen(path, "re");
        if (f) {
                check(fscanf(f, "%u", &n) == 1);
                (void) fclose(f);
        }
        return n;
}

static bool has_process(pid_t pid) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", (int) pid);
        DIR *d = opendir(path);
        if (d)
                (void) closedir(d);
        return d;
}

static void open_device_and_queue(void *userdata) {
        AqlDevice d = device_open(0);
        (void) queue_open(&d);
}

static void case_sysfs(void) {
        AqlDevice d = device_open(1);
        AqlQueue *q = queue_open(&d);
        uint32_t id = aql_queue_id(q);

        check(read_attribute(getpid(), id, "gpuid") == d.gpu_id);
        check(read_attribute(getpid(), id, "size") == 256 * sizeof(AqlPacket));
        check(read_attribute(getpid(), id, "type") == 0); /* compute, in its own numbers */
        check(aql_queue_destroy(q) == 0);
        check(read_attribute(getpid(), id, "gpuid") == UINT32_MAX && has_process(getpid()));

        pid_t pid = child_start(open_device_and_queue, NULL);
        check(child_wait(pid) == 0 && !has_process(pid));
}

/* Queues come and go while others work; numbers are used again. */
static void case_create_storm(void) {
        AqlDevice d = device_open(0);
        AqlQueue *steady = queue_open(&d);

        for (unsigned i = 0; i < 60; i++) {
                AqlQueue *q = queue_open(&d);
                check(aql_queue_id(q) == 1);
                check(aql_dispatch(steady, 200000, NULL) == 0 && aql_dispatch(q, 50000, NULL) == 0);
                aql_ring(steady);
                aql_ring(q);
                if (i % 2)
                        queue_close_clean(q);
                else
                        check(aql_queue_destroy(q) == 0);
        }
        queue_close_clean(steady);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"once-in-order", NULL, NULL, case_once_in_order},
                        {"rings-cross", NULL, NULL, case_rings_cross},
                        {"unwritten", NULL, NULL, case_unwritten},
                        {"fetched", NULL, NULL, case_fetched},
                        {"report", NULL, NULL, case_report},
                        {"ratio", NULL, NULL, case_ratio},
                        {"queues-share", NULL, NULL, case_queues_share},
                        {"several-gpus", "gfx90a,gfx906,gfx1100", NULL, case_several_gpus},
                        {"barriers", NULL, NULL, case_barriers},
                        {"events", NULL, NULL, case_events},
                        {"sysfs", "gfx90a,gfx1030", NULL, case_sysfs},
                        {"create-storm", NULL, "map-us=10", case_create_storm},
        };
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
