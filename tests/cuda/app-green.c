/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Green contexts, in all the ways that they are used and end: see app.c
 */

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "app.h"

#define PER_THREAD ((FakeStream) (uintptr_t) 2)
#define ROUNDS     6
#define CYCLES     40
#define LAUNCHES   1000

static const char resources[] = "some multiprocessors";

struct Context *green_new(int device) {
        struct Context *g;

        CHECK(cuGreenCtxCreate(&g, resources, device, 1) == 0);
        return g;
}

FakeStream green_stream(struct Context *g) {
        struct Stream *s;

        CHECK(cuGreenCtxStreamCreate(&s, g, 1, 0) == 0);
        return s;
}

void use(struct Context *g) {
        struct Context *c;

        CHECK(cuCtxFromGreenCtx(&c, g) == 0);
        CHECK(cuCtxSetCurrent(c) == 0);
}

void launch_some(FakeStream s, uint64_t p, uint64_t ns) {
        for (int k = 0; k < 20; k++)
                CHECK(launch_on(s, p, k, k % 8 == 7 ? ns : 0) == 0);
}

/* It ends before what is in flight does, which an event tells while there is the primary context. The handle may be
 * another one's then. */
static void destroy_in_flight(struct Context *g, FakeStream s) {
        struct Context *primary;
        struct Event *e;
        int device;

        use(g);
        CHECK(cuCtxGetDevice(&device) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&primary, device) == 0);
        CHECK(cuEventCreate(&e, 0) == 0);
        CHECK(cuEventRecord(e, s) == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
        CHECK(cuGreenCtxDestroy(g) == 0);
        CHECK(cuEventSynchronize(e) == 0);
        CHECK(cuEventDestroy_v2(e) == 0);
        CHECK(cuDevicePrimaryCtxRelease_v2(device) == 0);
}

/* What is left of it: nothing but its handle. Failed launches are counted by the layer alone. */
static void print_ended(struct Context *g, FakeStream s, uint64_t p) {
        struct Context *c;
        int device;

        printf("ended %d %d", cuStreamQuery(s), launch_on(s, p, 1, 0));
        printf(" %d", cuStreamDestroy_v2(s));
        printf(" %d", cuCtxSetCurrent(g));
        printf(" %d", launch_on(NULL, p, 1, 0));
        printf(" %d %d", cuCtxSynchronize(), cuCtxGetDevice(&device));
        CHECK(cuCtxGetCurrent(&c) == 0);
        printf(" %d\n", c == g);
        n_left += 2;
        CHECK(cuCtxSetCurrent(context) == 0);
}

/* --- beside each other --- */

static void use_first(struct Context *g, uint64_t p) {
        FakeStream s = green_stream(g);

        launch_some(s, p, 100000);
        CHECK(cu.wait(s) == 0);
        use(g);
        FakeStream other = stream();
        launch_some(other, p, 0);
        CHECK(cu.wait(other) == 0);
        launch_some(PER_THREAD, p, 0);
        CHECK(cuStreamSynchronize_ptsz(NULL) == 0);
        launch_some(NULL, p, 200000);
        destroy_in_flight(g, NULL);
        print_ended(g, s, p);
}

/* The driver refuses to destroy it. */
static void be_refused(struct Context *g) {
        fake_cuda_refuse_green(true);
        CHECK(cuGreenCtxDestroy(g) == 201);
        fake_cuda_refuse_green(false);
}

static void capture_in(struct Context *g, FakeStream s, uint64_t p) {
        struct Graph *graph;

        capture_and_run(s, p, 3);
        CHECK(cu.wait(s) == 0);
        CHECK(cuStreamBeginCapture_v2(s, 0) == 0);
        launch_some(s, p, 0);
        be_refused(g);
        launch_some(s, p, 0);
        CHECK(cuGreenCtxDestroy(g) == 0);
        printf("captured %d\n", cuStreamEndCapture(s, &graph));
}

void case_green(void) {
        FakeStream beside = stream();
        uint64_t p = memory(), q = memory(), r = memory();

        for (int round = 0; round < ROUNDS; round++) {
                struct Context *first = green_new(0), *second = green_new(round % 2);
                FakeStream s = green_stream(second);
                launch_some(s, q, 300000);
                use_first(first, p);
                be_refused(second);
                launch_some(s, q, 0);
                capture_in(second, s, q);
                launch_some(beside, r, 0);
                CHECK(cu.wait(beside) == 0);
        }
        printf("green %08x %08x %08x\n", sum(p, NULL), sum(q, NULL), sum(r, beside));
}

/* Each has green contexts of its own, whose handles go round. */
static void *green_main(void *userdata) {
        uint64_t p = memory();

        for (int round = 0; round < 20; round++) {
                struct Context *g = green_new(round % 2);
                FakeStream s = green_stream(g);
                use(g);
                launch_some(s, p, 0);
                CHECK(cu.wait(s) == 0);
                launch_some(round % 2 ? NULL : s, p, 50000);
                destroy_in_flight(g, round % 2 ? NULL : s);
        }
        return (void *) (uintptr_t) p;
}

void case_green_threads(void) {
        pthread_t t[3];
        void *p;

        for (int i = 0; i < 3; i++)
                CHECK(pthread_create(&t[i], NULL, green_main, NULL) == 0);
        for (int i = 0; i < 3; i++) {
                CHECK(pthread_join(t[i], &p) == 0);
                printf("green thread %08x\n", sum((uintptr_t) p, NULL));
        }
}

void be_reset(void) {
        struct Context *same;

        CHECK(cuDevicePrimaryCtxReset_v2(0) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
}

/* The primary context is not reset while it has green ones; `resets`: it is, by this driver, and they end with it. */
static void reset_beside(bool resets) {
        for (int round = 0; round < ROUNDS; round++) {
                struct Context *g = green_new(0), *other = green_new(1);
                FakeStream s = green_stream(g), t = green_stream(other);
                uint64_t p = memory(), q = memory();
                launch_some(s, p, 200000);
                launch_some(t, q, 200000);
                if (!resets) {
                        CHECK(cuDevicePrimaryCtxReset_v2(0) == 800);
                        launch_some(s, p, 200000);
                        CHECK(cuGreenCtxDestroy(g) == 0);
                }
                be_reset();
                print_ended(g, s, p);
                if (resets)
                        CHECK(cuGreenCtxDestroy(g) == 709);
                launch_some(t, q, 0);
                printf("green reset %08x %08x\n", sum(p, NULL), sum(q, t));
                CHECK(cuGreenCtxDestroy(other) == 0);
        }
}

void case_green_reset(void) {
        reset_beside(false);
}

static void case_reset_ends(void) {
        reset_beside(true);
}

/* --- what launches cost after that --- */

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

/* Prints how many events were recorded behind launches on a stream of the primary context before and after green
 * contexts have ended, how many events were left by these, and how often anybody has asked for one of their streams. */
static void case_cost(void) {
        FakeStream s = stream();
        uint64_t p = memory(), q = memory();
        unsigned long events = 0;

        fake_cuda_on_event(count_record);
        (void) records_of_launches(s, p);
        unsigned long before = records_of_launches(s, p);
        for (int i = 0; i < CYCLES; i++) {
                struct Context *g = green_new(0);
                FakeStream t = green_stream(g);
                if (i == 2)
                        events = fake_cuda_events();
                for (int k = 0; k < 5; k++)
                        launch_some(t, q, 0);
                CHECK(cu.wait(t) == 0);
                if (i % 4 == 3) {
                        CHECK(cuStreamBeginCapture_v2(t, 0) == 0);
                        launch_some(t, q, 0);
                }
                CHECK(cuGreenCtxDestroy(g) == 0);
        }
        long left = (long) fake_cuda_events() - (long) events;
        printf("%lu %lu %ld %lu\n", before, records_of_launches(s, p), left, fake_cuda_dead_calls());
        fake_cuda_on_event(NULL);
}

/* --- handles that are used again --- */

void use_all_streams(struct Context *g, FakeStream s) {
        use(g);
        launch_some(s, memory(), 0);
        launch_some(NULL, memory(), 0);
        launch_some(PER_THREAD, memory(), 0);
        CHECK(cuCtxSynchronize() == 0);
        CHECK(cuCtxSetCurrent(context) == 0);
}

static void use_again(void (*end)(struct Context *g)) {
        struct Context *g = green_new(0);
        FakeStream s = green_stream(g);

        use_all_streams(g, s);
        end(g);
        struct Context *other = green_new(1);
        FakeStream t = green_stream(other);
        CHECK(other == g && t == s);
        use_all_streams(other, t);
        CHECK(cuGreenCtxDestroy(other) == 0);
}

static void end_by_itself(struct Context *g) {
        CHECK(cuGreenCtxDestroy(g) == 0);
}

static void end_by_reset(struct Context *g) {
        CHECK(cuDevicePrimaryCtxReset_v2(0) == 0);
}

static void case_reused(void) {
        use_again(end_by_itself);
}

static void case_reset_reused(void) {
        use_again(end_by_reset);
}

/* The driver does not reset a primary context with green ones. */
static void case_reset_refused(void) {
        struct Context *g = green_new(0);
        FakeStream s = green_stream(g), t = stream();

        for (int i = 0; i < 2; i++) {
                use_all_streams(g, s);
                use_all_streams(context, t);
                CHECK(cuDevicePrimaryCtxReset_v2(0) == 800);
        }
        CHECK(cuGreenCtxDestroy(g) == 0);
}

static void case_refused(void) {
        struct Context *g = green_new(0);
        FakeStream s = green_stream(g);

        use_all_streams(g, s);
        be_refused(g);
        use_all_streams(g, s);
        CHECK(cuGreenCtxDestroy(g) == 0);
}

static struct Context *taker;
static FakeStream taken;

static void take_over(void) {
        taker = green_new(1);
        taken = green_stream(taker);
        use_all_streams(taker, taken);
}

/* Another thread gets the handles, before the driver has returned to the one that has ended the green context. */
static void case_taken_over(void) {
        struct Context *g = green_new(0);
        FakeStream s = green_stream(g);

        use_all_streams(g, s);
        fake_cuda_on_green_destroyed(take_over);
        CHECK(cuGreenCtxDestroy(g) == 0);
        CHECK(taker == g && taken == s);
        launch_some(taken, memory(), 0);
        CHECK(cu.wait(taken) == 0);
        CHECK(cuGreenCtxDestroy(taker) == 0);
}

/* The last user of the primary context is a green one, and ends. */
static void case_last(void) {
        uint64_t p = memory();
        struct Context *g = green_new(0), *same;

        CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
        launch_some(NULL, p, 0);
        CHECK(cuCtxSynchronize() == 0);
        launch_some(NULL, p, 200000);
        CHECK(cuGreenCtxDestroy(g) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
        launch_some(NULL, p, 0);
        CHECK(cuCtxSynchronize() == 0);
}

void case_green_special(const char *name) {
        static const struct {
                const char *name;
                void (*f)(void);
        } special[] = {
                        {"green-cost", case_cost},
                        {"green-reused", case_reused},
                        {"green-reset-ends", case_reset_ends},
                        {"green-reset-reused", case_reset_reused},
                        {"green-refused", case_refused},
                        {"green-reset-refused", case_reset_refused},
                        {"green-taken-over", case_taken_over},
                        {"green-last", case_last},
        };

        for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
                if (strcmp(name, special[i].name) == 0)
                        special[i].f();
}
