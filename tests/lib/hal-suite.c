/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The conformance suite of HAL backends: one process and its queues
 */

#include <inttypes.h>
#include <stdio.h>

#include "unit.h"

#include "common/macro.h"
#include "common/time-util.h"
#include "hal-bench.h"

#define QUEUES SUITE_QUEUES

const HalDriver *driver;
bool suite_is_long;

uint64_t suite_seed(void) {
        const char *v = getenv("HAL_SEED");
        return isempty(v) ? SUITE_SEED : strtoull(v, NULL, 0);
}

uint64_t next_random(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

/* --- the bench --- */

void bench_add_queue(Bench *b) {
        assert_in_range(b->n, 0, BENCH_QUEUES_MAX - 1);
        HalQueue *q = driver->queue_new(b->device);
        assert_non_null(q);
        assert_ptr_equal(q->ops, driver->ops);
        assert_int_equal(q->held, false);
        b->submitted[b->n] = b->work[b->n] = 0;
        b->queues[b->n++] = q;
}

void bench_drop_queue(Bench *b, size_t i) {
        driver->queue_free(b->queues[i]);
        b->n--;
        b->queues[i] = b->queues[b->n];
        b->submitted[i] = b->submitted[b->n];
        b->work[i] = b->work[b->n];
}

Bench *bench_new(size_t n_queues) {
        Bench *b = calloc(1, sizeof(Bench));

        assert_non_null(b);
        b->device = driver->device_new();
        assert_non_null(b->device);
        while (b->n < n_queues)
                bench_add_queue(b);
        return b;
}

void bench_free(Bench *b) {
        for (size_t i = 0; i < b->n; i++)
                driver->queue_free(b->queues[i]);
        driver->device_free(b->device);
        free(b);
}

void bench_submit(Bench *b, size_t i, uint64_t duration_ns) {
        assert_int_equal(driver->submit(b->queues[i], duration_ns), b->submitted[i]);
        b->submitted[i]++;
        b->work[i] += duration_ns;
}

uint64_t bench_done(Bench *b, size_t i) {
        uint64_t n = 0;

        while (n < b->submitted[i] && driver->times_done(b->queues[i], n) > 0)
                n++;
        return n;
}

static int driver_backlog(const HalQueue *q, uint64_t *ret) {
        return driver->backlog ? driver->backlog(q, ret) : -EOPNOTSUPP;
}

static void assert_done(Bench *b, size_t i) {
        uint64_t backlog;

        for (uint64_t n = 0; n < b->submitted[i]; n++)
                assert_int_equal(driver->times_done(b->queues[i], n), 1);
        if (driver_backlog(b->queues[i], &backlog) == 0)
                assert_int_equal(backlog, 0);
        if (driver->exact)
                assert_int_equal(driver->progress(b->queues[i]), b->work[i]);
}

void bench_assert_all_done(Bench *b) {
        for (size_t i = 0; i < b->n; i++)
                assert_done(b, i);
}

/* Checks one queue after the other, so that each look begins where the last one ended. */
void bench_run_to_end(Bench *b) {
        assert_int_equal(driver->ops->release(b->queues, b->n), 0);
        for (size_t i = 0; i < b->n; i++)
                for (uint64_t n = 0; n < b->submitted[i]; n++)
                        while (driver->times_done(b->queues[i], n) == 0)
                                driver->run(b->device, NSEC_PER_MSEC);
}

static int setup(void **state) {
        *state = bench_new(QUEUES);
        return 0;
}

static int teardown(void **state) {
        bench_free(*state);
        return 0;
}

static bool can_stop(void) {
        return driver->max_level >= LEVEL_DEQUEUE;
}

/* --- cases --- */

static void test_table(void **state) {
        assert_non_null(driver->ops->name);
        assert_non_null(driver->ops->hold);
        assert_non_null(driver->ops->release);
        assert_in_range(driver->max_level, LEVEL_OBSERVE, LEVEL_INTERRUPT);
        assert_int_equal(driver->ops->hold(NULL, 0), 0);
        assert_int_equal(driver->ops->release(NULL, 0), 0);
}

static void test_hold_stops(void **state) {
        Bench *b = *state;

        for (size_t i = 0; i < QUEUES; i++)
                for (int k = 0; k < 4; k++)
                        bench_submit(b, i, NSEC_PER_MSEC);
        driver->run(b->device, NSEC_PER_MSEC * 3 / 2);

        /* Holds half of the queues: the others are not touched. */
        assert_int_equal(driver->ops->hold(b->queues, QUEUES / 2), 0);
        uint64_t finished[QUEUES], progress[QUEUES];
        for (size_t i = 0; i < QUEUES; i++) {
                finished[i] = bench_done(b, i);
                progress[i] = driver->progress(b->queues[i]);
                assert_int_equal(b->queues[i]->held, i < QUEUES / 2);
        }
        driver->run(b->device, 10 * NSEC_PER_MSEC);
        for (size_t i = 0; i < QUEUES / 2; i++) {
                /* If running work cannot be stopped, it may end. */
                uint64_t slack = driver->max_level >= LEVEL_INTERRUPT ? 0 : 1;
                assert_true(bench_done(b, i) - finished[i] <= slack);
                assert_true(bench_done(b, i) < b->submitted[i]);
                if (slack == 0)
                        assert_int_equal(driver->progress(b->queues[i]), progress[i]);
        }
        for (size_t i = QUEUES / 2; i < QUEUES; i++)
                assert_true(driver->progress(b->queues[i]) > progress[i]);

        bench_run_to_end(b);
        bench_assert_all_done(b);
}

static void test_release_resumes_exactly(void **state) {
        Bench *b = *state;

        bench_submit(b, 0, 1000);
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

/* A hold is one boolean, never a count. */
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
                bench_submit(b, i, NSEC_PER_MSEC);
        bench_run_to_end(b); /* hangs if a hold was counted */
        bench_assert_all_done(b);
}

static void test_submit_while_held(void **state) {
        Bench *b = *state;
        uint64_t backlog;

        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                bench_submit(b, i, NSEC_PER_MSEC);
        driver->run(b->device, 5 * NSEC_PER_MSEC);
        for (size_t i = 0; can_stop() && i < QUEUES; i++) {
                assert_int_equal(bench_done(b, i), 0);
                if (driver_backlog(b->queues[i], &backlog) == 0)
                        assert_int_equal(backlog, 1);
        }
        bench_run_to_end(b);
        bench_assert_all_done(b);
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
                                bench_submit(b, i, 1000);
                        uint64_t before = bench_done(b, 3);
                        driver->run(b->device, NSEC_PER_MSEC);
                        for (size_t i = 0; i < QUEUES; i++)
                                assert_int_equal(bench_done(b, i), i == 3 ? before : b->submitted[i]);

                        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
                        driver->inject(b->device, after, errors[k]);
                        assert_int_equal(driver->ops->release(b->queues, QUEUES), errors[k]);
                        for (size_t i = 0; i < QUEUES; i++)
                                assert_true(b->queues[i]->held);
                        bench_run_to_end(b);
                }
        bench_assert_all_done(b);
}

/* Of a batch that failed, nothing has changed. */
static bool random_batch(Bench *b, uint64_t *seed) {
        HalQueue *batch[BENCH_QUEUES_MAX];
        bool before[BENCH_QUEUES_MAX];
        size_t n = 0;

        for (size_t i = 0; i < b->n; i++) {
                before[i] = b->queues[i]->held;
                if (next_random(seed) % 2)
                        batch[n++] = b->queues[i];
        }
        bool hold = next_random(seed) % 2;
        int r = hold ? driver->ops->hold(batch, n) : driver->ops->release(batch, n);
        for (size_t i = 0; r < 0 && i < b->n; i++)
                assert_int_equal(b->queues[i]->held, before[i]);
        for (size_t i = 0; r == 0 && i < n; i++)
                assert_int_equal(batch[i]->held, hold);
        return r >= 0;
}

void bench_random_cycles(Bench *b, unsigned n_cycles, uint64_t seed) {
        unsigned failures = 0;

        for (unsigned cycle = 0; cycle < n_cycles; cycle++) {
                for (size_t i = 0; i < b->n; i++)
                        if (next_random(&seed) % 4 == 0)
                                bench_submit(b, i, next_random(&seed) % 5000 + 1);
                if (driver->inject)
                        driver->inject(b->device, (unsigned) (next_random(&seed) % 32), -EIO);
                failures += !random_batch(b, &seed);
                driver->run(b->device, next_random(&seed) % 2000);
        }
        if (driver->inject) {
                assert_int_not_equal(failures, 0);
                driver->inject(b->device, 0, 0);
        }
        bench_run_to_end(b);
        bench_assert_all_done(b);
}

static void test_random_cycles(void **state) {
        uint64_t seed = suite_seed();

        print_message("seed %" PRIu64 "\n", seed);
        bench_random_cycles(*state, SUITE_CYCLES, seed);
}

/* Each hold affects the queues that it names, whatever earlier ones named. */
static void test_nested(void **state) {
        Bench *b = *state;
        HalQueue *const *q = b->queues;

        for (int i = 0; i < 20; i++) {
                assert_int_equal(driver->ops->hold(q, 3), 0);
                assert_int_equal(driver->ops->hold(q + 1, 4), 0);
                assert_int_equal(driver->ops->hold(q, QUEUES), 0);
                assert_int_equal(driver->ops->release(q + 2, 2), 0);
                for (size_t k = 0; k < QUEUES; k++) {
                        assert_int_equal(q[k]->held, k != 2 && k != 3);
                        bench_submit(b, k, 1000);
                }
                uint64_t before = bench_done(b, 0);
                while (bench_done(b, 2) < b->submitted[2] || bench_done(b, 3) < b->submitted[3])
                        driver->run(b->device, NSEC_PER_MSEC);
                if (can_stop())
                        assert_int_equal(bench_done(b, 0), before);
                assert_int_equal(driver->ops->release(q, QUEUES), 0);
        }
        bench_run_to_end(b);
        bench_assert_all_done(b);
}

/* A queue that is made while all others are held begins as its driver says, and can be held and released by itself. */
static void test_create_while_held(void **state) {
        Bench *b = *state;
        bool inherits = driver->inherit == HAL_INHERIT_HOLD;

        for (size_t i = 0; i < QUEUES; i++)
                bench_submit(b, i, NSEC_PER_MSEC);
        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
        uint64_t before = bench_done(b, 0);
        bench_add_queue(b);
        bench_submit(b, QUEUES, 1000);
        if (inherits) {
                driver->run(b->device, 5 * NSEC_PER_MSEC);
                assert_int_equal(bench_done(b, QUEUES), 0);
                assert_int_equal(driver->ops->release(b->queues + QUEUES, 1), 0);
        }
        while (bench_done(b, QUEUES) == 0)
                driver->run(b->device, NSEC_PER_MSEC);
        if (driver->max_level >= LEVEL_INTERRUPT)
                assert_int_equal(bench_done(b, 0), before);
        assert_int_equal(driver->ops->hold(b->queues, b->n), 0);
        bench_run_to_end(b);
        bench_assert_all_done(b);
}

/* A queue that is destroyed while it is held, with work left, does not end the holds of others. */
static void test_destroy_while_held(void **state) {
        Bench *b = *state;

        assert_int_equal(driver->ops->hold(b->queues, QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                bench_submit(b, i, 1000);
        for (size_t i = 0; i < 3; i++) {
                bench_drop_queue(b, i);
                driver->run(b->device, NSEC_PER_MSEC);
                for (size_t k = 0; k < b->n; k++) {
                        assert_true(b->queues[k]->held);
                        if (can_stop())
                                assert_int_equal(bench_done(b, k), 0);
                }
        }
        bench_add_queue(b);
        bench_submit(b, b->n - 1, 1000);
        bench_run_to_end(b);
        bench_assert_all_done(b);
}

/* Queues come and go among random holds; each is asked for its accounts before it goes, unless it goes in the middle of
 * its work. */
static void test_random_life(void **state) {
        Bench *b = *state;
        uint64_t seed = suite_seed();

        print_message("seed %" PRIu64 "\n", seed);
        for (unsigned i = 0; i < (suite_is_long ? SUITE_CYCLES : SUITE_CYCLES / 20); i++) {
                size_t k = next_random(&seed) % MAX(b->n, (size_t) 1);
                switch (next_random(&seed) % 8) {
                case 0:
                        if (b->n < BENCH_QUEUES_MAX)
                                bench_add_queue(b);
                        break;
                case 1:
                        if (b->n > 2)
                                bench_drop_queue(b, k);
                        break;
                case 2:
                        assert_int_equal(driver->ops->release(b->queues + k, 1), 0);
                        while (bench_done(b, k) < b->submitted[k])
                                driver->run(b->device, NSEC_PER_MSEC);
                        assert_done(b, k);
                        break;
                default:
                        bench_submit(b, k, next_random(&seed) % 5000 + 1);
                        assert_true(random_batch(b, &seed));
                }
                driver->run(b->device, next_random(&seed) % 2000);
        }
        bench_run_to_end(b);
        bench_assert_all_done(b);
}

static bool always(void) {
        return true;
}

static bool stops_exactly(void) {
        return driver->exact && driver->max_level >= LEVEL_INTERRUPT;
}

static bool can_fail(void) {
        return driver->inject;
}

static int run_group(const char *part, const struct CMUnitTest *tests, size_t n) {
        char name[64];

        (void) snprintf(name, sizeof(name), "%s, %s", driver->ops->name, part);
        return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

static int run_one_process(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct {
                bool (*applies)(void);
                struct CMUnitTest test;
        } cases[] = {
                        {always, T(test_table)},
                        {can_stop, T(test_hold_stops)},
                        {stops_exactly, T(test_release_resumes_exactly)},
                        {always, T(test_repeated)},
                        {always, T(test_nested)},
                        {always, T(test_submit_while_held)},
                        {always, T(test_create_while_held)},
                        {always, T(test_destroy_while_held)},
                        {can_fail, T(test_rollback)},
                        {always, T(test_random_life)},
                        {always, T(test_random_cycles)},
        };
        struct CMUnitTest tests[ELEMENTSOF(cases)];
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (cases[i].applies())
                        tests[n++] = cases[i].test;
        return run_group("one process", tests, n);
}

static const HalDriver *driver_find(const HalDriver *const *drivers, const char *name) {
        while (*drivers && !streq((*drivers)->ops->name, name))
                drivers++;
        return *drivers;
}

int hal_suite_main(const HalDriver *const *drivers, int argc, char *argv[]) {
        int failed = 0;

        suite_processes_init(argv);
        if (argc > 5 && streq(argv[1], "--worker")) {
                driver = driver_find(drivers, argv[2]);
                suite_is_long = argc > 6;
                return driver ? suite_worker_main(argv + 3) : EXIT_FAILURE;
        }
        suite_is_long = argc > 1 && streq(argv[1], "--long");
        for (; *drivers; drivers++) {
                driver = *drivers;
                /* Tests with several processes come first: a runtime that this process has started would be half alive
                 * in its children. */
                failed += run_group("processes", suite_process_tests, suite_n_process_tests);
                failed += run_group("service", suite_service_tests, suite_n_service_tests);
                failed += run_one_process();
        }
        return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
