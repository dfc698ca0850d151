/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Captures, in all the ways that there are: see app.c
 */

#include <pthread.h>
#include <stdatomic.h>

#include "app.h"

#define PER_THREAD ((FakeStream) (uintptr_t) 2)
#define ROUNDS     8

/* In global mode: a query at the wrong moment invalidates it. */
void case_captures(void) {
        FakeStream s = stream(), beside = stream();
        uint64_t p = memory(), q = memory();

        for (int round = 0; round < 20; round++) {
                struct Graph *g, *run;
                CHECK(launch_on(beside, q, round, 300000) == 0);
                CHECK(launch_on(s, p, round, 100000) == 0);
                CHECK(cuStreamBeginCapture_v2(s, 0) == 0);
                for (int i = 0; i < 10; i++) {
                        CHECK(launch_on(s, p, i, 0) == 0);
                        CHECK(launch_on(beside, q, i, 100000) == 0);
                        CHECK(cu.wait(beside) == 0); /* the layer may look while the other stream captures */
                }
                CHECK(cuStreamEndCapture(s, &g) == 0);
                CHECK(cuGraphInstantiateWithFlags(&run, g, 0) == 0);
                for (int i = 0; i < 5; i++)
                        CHECK(cu.graph(run, s) == 0);
        }
        printf("captured %08x beside %08x\n", sum(p, s), sum(q, beside));
}

static void capture(FakeStream s, bool ptsz) {
        if (ptsz)
                CHECK(cuStreamBeginCapture_v2_ptsz(NULL, 0) == 0);
        else
                CHECK(cuStreamBeginCapture_v2(s, 0) == 0);
}

static void run_captured(FakeStream s, bool ptsz) {
        struct Graph *g, *run;

        CHECK((ptsz ? cuStreamEndCapture_ptsz(NULL, &g) : cuStreamEndCapture(s, &g)) == 0);
        CHECK(cuGraphInstantiateWithFlags(&run, g, 0) == 0);
        CHECK(cu.graph(run, s) == 0);
}

void capture_and_run(FakeStream s, uint64_t p, int k) {
        capture(s, false);
        CHECK(launch_on(s, p, k, 0) == 0);
        run_captured(s, false);
}

void end_capture(FakeStream s) {
        struct Graph *g;
        int captures;

        CHECK(cuStreamIsCapturing(s, &captures) == 0);
        if (captures)
                CHECK(cuStreamEndCapture(s, &g) == 0);
}

/* Each on a stream of its own, all the time. */
static void *capturing_main(void *userdata) {
        FakeStream s = userdata;
        uint64_t p = memory();

        CHECK(cuCtxSetCurrent(context) == 0);
        for (int round = 0; round < 50; round++) {
                CHECK(launch_on(s, p, round, 0) == 0);
                capture(s, false);
                for (int i = 0; i < 3; i++)
                        CHECK(launch_on(s, p, i, 0) == 0);
                run_captured(s, false);
        }
        return (void *) (uintptr_t) p;
}

void case_capturers(void) {
        pthread_t t[3];
        FakeStream s[3] = {stream(), stream(), stream()};
        void *p;

        for (int i = 0; i < 3; i++)
                CHECK(pthread_create(&t[i], NULL, capturing_main, s[i]) == 0);
        for (int i = 0; i < 3; i++) {
                CHECK(pthread_join(t[i], &p) == 0);
                printf("capturer %d %08x\n", i, sum((uintptr_t) p, s[i]));
        }
}

static pthread_barrier_t both;

/* Two threads capture at a time, by the same handle. One of them ends first, and the other goes on. */
static void *per_thread_main(void *userdata) {
        bool is_first = userdata;
        uint64_t p = memory();

        CHECK(cuCtxSetCurrent(context) == 0);
        for (int round = 0; round < ROUNDS; round++) {
                bool ptsz = round % 2;
                CHECK(launch_on(PER_THREAD, p, round, 0) == 0);
                capture(PER_THREAD, ptsz);
                (void) pthread_barrier_wait(&both);
                if (is_first)
                        run_captured(PER_THREAD, ptsz);
                (void) pthread_barrier_wait(&both);
                for (int i = 0; i < 3; i++)
                        CHECK(launch_on(PER_THREAD, p, i, 0) == 0);
                if (!is_first)
                        run_captured(PER_THREAD, ptsz);
                (void) pthread_barrier_wait(&both);
        }
        CHECK(cuStreamSynchronize_ptsz(NULL) == 0);
        return (void *) (uintptr_t) p;
}

void case_per_thread_captures(void) {
        pthread_t t[2];
        FakeStream s = stream();
        void *p;

        CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
        for (int i = 0; i < 2; i++)
                CHECK(pthread_create(&t[i], NULL, per_thread_main, i == 0 ? s : NULL) == 0);
        for (int i = 0; i < 2; i++) {
                CHECK(pthread_join(t[i], &p) == 0);
                printf("per-thread capturer %d %08x\n", i, sum((uintptr_t) p, s));
        }
}

/* The layer may look while another stream captures: it is asked to by launches that are complete. */
static void launch_beside(FakeStream beside, uint64_t p, int k) {
        CHECK(launch_on(beside, p, k, 100000) == 0);
        CHECK(cu.wait(beside) == 0);
}

void case_recaptures(void) {
        FakeStream s = stream(), beside = stream();
        uint64_t p = memory(), q = memory();
        struct Graph *g, *run;

        CHECK(cuGraphCreate(&g, 0) == 0);
        for (int round = 0; round < ROUNDS; round++) {
                CHECK(launch_on(s, p, round, 100000) == 0);
                CHECK(cuStreamBeginRecaptureToGraph(s, 0, g, NULL, NULL) == 0);
                for (int i = 0; i < 5; i++) {
                        CHECK(launch_on(s, p, i + round, 0) == 0);
                        launch_beside(beside, q, i);
                }
                CHECK(cuStreamEndCapture(s, &g) == 0);
                CHECK(cuGraphInstantiateWithFlags(&run, g, 0) == 0);
                CHECK(cu.graph(run, s) == 0);
                CHECK(cu.wait(s) == 0);
        }
        printf("recaptured %08x beside %08x\n", sum(p, s), sum(q, beside));
}

/* The driver refuses to destroy the stream, and its context, while they are captured. */
void case_refused_captures(void) {
        FakeStream s = stream(), beside = stream();
        uint64_t p = memory(), q = memory();

        for (int round = 0; round < ROUNDS; round++) {
                CHECK(launch_on(s, p, round, 100000) == 0);
                capture(s, false);
                CHECK(cuStreamDestroy_v2(s) == 900);
                CHECK(cuCtxDestroy_v2(context) == 201);
                for (int i = 0; i < 5; i++) {
                        CHECK(launch_on(s, p, i + round, 0) == 0);
                        launch_beside(beside, q, i);
                }
                run_captured(s, false);
                CHECK(cu.wait(s) == 0);
        }
        printf("refused %08x beside %08x\n", sum(p, s), sum(q, beside));
}

/* --- what launches cost after captures --- */

#define LAUNCHES 1000
#define MANY     100

static atomic_ulong n_records;

static void count_record(bool record) {
        n_records += record;
}

static unsigned long records_of_launches(FakeStream s, uint64_t p) {
        n_records = 0;
        for (int i = 0; i < LAUNCHES; i++) {
                CHECK(launch_on(s, p, i, 0) == 0);
                if (i % 100 == 99)
                        CHECK(cu.wait(s) == 0);
        }
        return n_records;
}

/* Prints how many events were recorded behind launches: before captures; when one of the legacy default stream was
 * refused while a stream was captured that waits for that; and after many captures at a time. */
void case_capture_cost(void) {
        FakeStream s = stream(), many[MANY];
        uint64_t p = memory();
        struct Stream *blocking;

        fake_cuda_on_event(count_record);
        (void) records_of_launches(s, p);
        printf("%lu\n", records_of_launches(s, p));
        CHECK(cuStreamCreate(&blocking, 0) == 0);
        capture(blocking, false);
        CHECK(cuStreamBeginCapture_v2(NULL, 2) == 900);
        end_capture(blocking);
        (void) records_of_launches(s, p);
        printf("%lu\n", records_of_launches(s, p));
        for (int i = 0; i < MANY; i++)
                capture(many[i] = stream(), false);
        for (int i = 0; i < MANY; i++)
                end_capture(many[i]);
        (void) records_of_launches(s, p);
        printf("%lu\n", records_of_launches(s, p));
        fake_cuda_on_event(NULL);
}

void case_cig(void) {
        FakeStream s = stream(), beside = stream();
        uint64_t p = memory(), q = memory();

        for (int round = 0; round < ROUNDS; round++) {
                CHECK(launch_on(s, p, round, 100000) == 0);
                CHECK(cuStreamBeginCaptureToCig(s, NULL) == 0);
                for (int i = 0; i < 5; i++)
                        CHECK(launch_on(s, p, i + round, 0) == 0);
                CHECK(cuStreamEndCaptureToCig(s) == 0);
                launch_beside(beside, q, round);
        }
        printf("for graphics %08x beside %08x\n", sum(p, s), sum(q, beside));
}

void case_unknown_captures(void) {
        FakeStream s = stream(), beside = stream();
        uint64_t p = memory(), q = memory();

        for (int round = 0; cu.capture_of_tomorrow && round < ROUNDS; round++) {
                CHECK(cu.capture_of_tomorrow(s, NULL, 0) == 0);
                for (int i = 0; i < 5; i++) {
                        CHECK(launch_on(s, p, i + round, 0) == 0);
                        launch_beside(beside, q, i);
                }
                run_captured(s, false);
        }
        printf("captured of tomorrow %08x beside %08x\n", sum(p, s), sum(q, beside));
}
