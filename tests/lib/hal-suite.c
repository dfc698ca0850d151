/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The conformance suite of HAL backends
 */

#include "hal-suite.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "unit.h"

#define QUEUES 8
#define CYCLES 10000

static const HalDriver *driver;

typedef struct Bench {
        void *device;
        HalQueue *queues[QUEUES];
        uint64_t submitted[QUEUES]; /* number of dispatches */
        uint64_t work[QUEUES];      /* their length, summed */
} Bench;

static int setup(void **state) {
        Bench *b = calloc(1, sizeof(Bench));

        assert_non_null(b);
        b->device = driver->device_new();
        assert_non_null(b->device);
        for (size_t i = 0; i < QUEUES; i++) {
                b->queues[i] = driver->queue_new(b->device);
                assert_non_null(b->queues[i]);
                assert_ptr_equal(b->queues[i]->ops, driver->ops);
                assert_false(b->queues[i]->held);
        }
        *state = b;
        return 0;
}

static int teardown(void **state) {
        Bench *b = *state;

        for (size_t i = 0; i < QUEUES; i++)
                driver->queue_free(b->queues[i]);
        driver->device_free(b->device);
        free(b);
        return 0;
}

static bool can_stop(void) {
        return driver->ops->traits.max_level >= LEVEL_DEQUEUE;
}

static void submit(Bench *b, size_t i, uint64_t duration) {
        assert_int_equal(driver->submit(b->queues[i], duration), b->submitted[i]);
        b->submitted[i]++;
        b->work[i] += duration;
}

static uint64_t done(Bench *b, size_t i) {
        uint64_t n = 0;

        while (n < b->submitted[i] && driver->times_done(b->queues[i], n) > 0)
                n++;
        return n;
}

/* Each dispatch exactly once, and nothing left. */
static void assert_all_done(Bench *b) {
        for (size_t i = 0; i < QUEUES; i++) {
                uint64_t backlog;
                for (uint64_t n = 0; n < b->submitted[i]; n++)
                        assert_int_equal(driver->times_done(b->queues[i], n), 1);
                if (driver->ops->backlog(b->queues[i], &backlog) == 0)
                        assert_int_equal(backlog, 0);
                if (driver->exact)
                        assert_int_equal(driver->progress(b->queues[i]), b->work[i]);
        }
}

static void run_to_end(Bench *b) {
        assert_int_equal(driver->ops->release(b->queues, QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                while (done(b, i) < b->submitted[i])
                        driver->run(b->device, NSEC_PER_MSEC);
}

/* --- cases --- */

static void test_traits(void **state) {
        const HalTraits *t = &driver->ops->traits;

        assert_non_null(driver->ops->name);
        assert_non_null(driver->ops->hold);
        assert_non_null(driver->ops->release);
        assert_non_null(driver->ops->backlog);
        assert_non_null(driver->ops->costs);
        assert_in_range(t->max_level, LEVEL_OBSERVE, LEVEL_INTERRUPT);
        assert_int_not_equal(t->callers, 0);
        assert_int_equal(t->callers & ~(unsigned) (HAL_CALLER_PROCESS | HAL_CALLER_SERVICE), 0);
        assert_int_equal(driver->ops->hold(NULL, 0), 0);
        assert_int_equal(driver->ops->release(NULL, 0), 0);
}

static void test_hold_stops(void **state) {
        Bench *b = *state;

        for (size_t i = 0; i < QUEUES; i++)
                for (int k = 0; k < 4; k++)
                        submit(b, i, NSEC_PER_MSEC);
        driver->run(b->device, NSEC_PER_MSEC * 3 / 2);

        /* Half of them: the others are not touched. */
        assert_int_equal(driver->ops->hold(b->queues, QUEUES / 2), 0);
        uint64_t finished[QUEUES], progress[QUEUES];
        for (size_t i = 0; i < QUEUES; i++) {
                finished[i] = done(b, i);
                progress[i] = driver->progress(b->queues[i]);
                assert_int_equal(b->queues[i]->held, i < QUEUES / 2);
        }
        driver->run(b->device, 10 * NSEC_PER_MSEC);
        for (size_t i = 0; i < QUEUES / 2; i++) {
                /* Where running work cannot be stopped, it may end. */
                uint64_t slack = driver->ops->traits.max_level >= LEVEL_INTERRUPT ? 0 : 1;
                assert_true(done(b, i) - finished[i] <= slack);
                assert_true(done(b, i) < b->submitted[i]);
                if (slack == 0)
                        assert_int_equal(driver->progress(b->queues[i]), progress[i]);
        }
        for (size_t i = QUEUES / 2; i < QUEUES; i++)
                assert_true(driver->progress(b->queues[i]) > progress[i]);

        run_to_end(b);
        assert_all_done(b);
}

static void test_release_resumes_exactly(void **state) {
        Bench *b = *state;

        submit(b, 0, 1000);
        for (int i = 0; i < 999; i++) {
                driver->run(b->device, 1);
                assert_int_equal(driver->ops->hold(b->queues, 1), 0);
                driver->run(b->device, 7);
                assert_int_equal(driver->ops->release(b->queues, 1), 0);
                assert_int_equal(driver->times_done(b->queues[0], 0), 0);
        }
        assert_int_equal(driver->progress(b->queues[0]), 999);
        driver->run(b->device, 1);
        assert_int_equal(driver->times_done(b->queues[0], 0), 1);
}

/* One boolean, never a count. */
static void test_repeated(void **state) {
        Bench *b = *state;

        assert_int_equal(driver->ops->release(b->queues, QUEUES), 0); /* nothing was held */
        for (int i = 0; i < 3; i++)
                assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
        HalQueue *twice[] = {b->queues[0], b->queues[1], b->queues[0]};
        assert_int_equal(driver->ops->hold(twice, ELEMENTSOF(twice)), 0);
        assert_int_equal(driver->ops->release(twice, ELEMENTSOF(twice)), 0);
        assert_false(b->queues[0]->held);
        assert_true(b->queues[2]->held);
        assert_int_equal(driver->ops->release(b->queues, QUEUES), 0);

        for (size_t i = 0; i < QUEUES; i++)
                submit(b, i, NSEC_PER_MSEC);
        run_to_end(b); /* hangs if a hold was counted */
        assert_all_done(b);
}

static void test_submit_while_held(void **state) {
        Bench *b = *state;
        uint64_t backlog;

        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                submit(b, i, NSEC_PER_MSEC);
        driver->run(b->device, 5 * NSEC_PER_MSEC);
        for (size_t i = 0; can_stop() && i < QUEUES; i++) {
                assert_int_equal(done(b, i), 0);
                if (driver->ops->backlog(b->queues[i], &backlog) == 0)
                        assert_int_equal(backlog, 1);
        }
        run_to_end(b);
        assert_all_done(b);
}

static void test_rollback(void **state) {
        static const int errors[] = {-EAGAIN, -EIO, -ETIME, -EACCES, -ENODEV};
        Bench *b = *state;

        for (size_t k = 0; k < ELEMENTSOF(errors); k++)
                for (unsigned after = 0; after < QUEUES - 1; after++) {
                        /* Queue 3 is held before and after, whatever happens to the batch. */
                        assert_int_equal(driver->ops->hold(&b->queues[3], 1), 0);
                        driver->inject(b->device, after, errors[k]);
                        assert_int_equal(driver->ops->hold(b->queues, QUEUES), errors[k]);
                        for (size_t i = 0; i < QUEUES; i++)
                                assert_int_equal(b->queues[i]->held, i == 3);
                        for (size_t i = 0; i < QUEUES; i++)
                                submit(b, i, 1000);
                        uint64_t before = done(b, 3);
                        driver->run(b->device, NSEC_PER_MSEC);
                        for (size_t i = 0; i < QUEUES; i++)
                                assert_int_equal(done(b, i), i == 3 ? before : b->submitted[i]);

                        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
                        driver->inject(b->device, after, errors[k]);
                        assert_int_equal(driver->ops->release(b->queues, QUEUES), errors[k]);
                        for (size_t i = 0; i < QUEUES; i++)
                                assert_true(b->queues[i]->held);
                        run_to_end(b);
                }
        assert_all_done(b);
}

static void test_costs(void **state) {
        Bench *b = *state;
        HalCosts costs;

        for (int i = 0; i < 20; i++) {
                assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
                assert_int_equal(driver->ops->release(b->queues, QUEUES), 0);
        }
        driver->ops->costs(b->queues[0], &costs);
        assert_int_equal(costs.hold_ns > 0, can_stop());
        assert_int_equal(costs.release_ns > 0, can_stop());
}

static uint64_t next_random(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static void test_random_cycles(void **state) {
        uint64_t seed = 88172645463325252;
        Bench *b = *state;
        unsigned failures = 0;

        for (int cycle = 0; cycle < CYCLES; cycle++) {
                HalQueue *batch[QUEUES];
                bool before[QUEUES];
                size_t n = 0;

                for (size_t i = 0; i < QUEUES; i++) {
                        before[i] = b->queues[i]->held;
                        if (next_random(&seed) % 2)
                                batch[n++] = b->queues[i];
                        if (next_random(&seed) % 4 == 0)
                                submit(b, i, next_random(&seed) % 5000 + 1);
                }
                if (driver->inject)
                        driver->inject(b->device, (unsigned) (next_random(&seed) % 32), -EIO);
                bool hold = next_random(&seed) % 2;
                int r = hold ? driver->ops->hold(batch, n) : driver->ops->release(batch, n);
                failures += r < 0;
                for (size_t i = 0; r < 0 && i < QUEUES; i++)
                        assert_int_equal(b->queues[i]->held, before[i]);
                for (size_t i = 0; r == 0 && i < n; i++)
                        assert_int_equal(batch[i]->held, hold);
                driver->run(b->device, next_random(&seed) % 2000);
        }
        if (driver->inject) {
                assert_int_not_equal(failures, 0);
                driver->inject(b->device, 0, 0);
        }
        run_to_end(b);
        assert_all_done(b);
}

static bool always(void) {
        return true;
}

static bool stops_exactly(void) {
        return driver->exact && driver->ops->traits.max_level >= LEVEL_INTERRUPT;
}

static bool can_fail(void) {
        return driver->inject;
}

int hal_suite_run(const HalDriver *d) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct {
                bool (*applies)(void);
                struct CMUnitTest test;
        } cases[] = {
                        {always, T(test_traits)},
                        {can_stop, T(test_hold_stops)},
                        {stops_exactly, T(test_release_resumes_exactly)},
                        {always, T(test_repeated)},
                        {always, T(test_submit_while_held)},
                        {can_fail, T(test_rollback)},
                        {always, T(test_costs)},
                        {always, T(test_random_cycles)},
        };
        struct CMUnitTest tests[ELEMENTSOF(cases)];
        size_t n = 0;

        driver = d;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (cases[i].applies())
                        tests[n++] = cases[i].test;
        return _cmocka_run_group_tests(d->ops->name, tests, n, NULL, NULL);
}
