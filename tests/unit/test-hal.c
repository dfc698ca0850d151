/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HAL: the conformance suite over the null and the fake backend, and cases for the fake one alone
 */

#include "common/macro.h"
#include "common/time-util.h"
#include "tests/lib/hal-fake.h"
#include "tests/lib/hal-null.h"
#include "tests/lib/hal-suite.h"
#include "tests/lib/unit.h"

/* --- fake --- */

static void *fake_start(void) {
        FakeDevice *d = fake_device_new();

        if (d)
                fake_device_set_costs(d, &(HalCosts){.hold_ns = 0, .release_ns = 0});
        return d;
}

static void fake_stop(void *d) {
        fake_device_free(d);
}

static HalQueue *fake_make(void *d) {
        return fake_queue_new(d);
}

static void fake_drop(HalQueue *q) {
        fake_queue_free(q);
}

static void fake_run(void *d, uint64_t ns) {
        fake_device_run(d, ns);
}

static unsigned fake_times(HalQueue *q, uint64_t n) {
        return fake_queue_dispatch(q, n).times;
}

static void fake_fail(void *d, unsigned after, int error) {
        fake_device_fail(d, after, error);
}

static const HalDriver fake_driver = {
                .ops = &hal_fake_ops,
                .max_level = LEVEL_INTERRUPT,
                .inherit = HAL_INHERIT_RUN,
                .device_new = fake_start,
                .device_free = fake_stop,
                .queue_new = fake_make,
                .queue_free = fake_drop,
                .submit = fake_queue_submit,
                .run = fake_run,
                .times_done = fake_times,
                .progress = fake_queue_progress,
                .backlog = fake_queue_backlog,
                .exact = true,
                .inject = fake_fail,
};

/* --- null: the fake device under a backend that cannot stop it --- */

typedef struct NullQueue {
        HalQueue hal;
        HalQueue *device_queue;
} NullQueue;

static HalQueue *null_make(void *d) {
        NullQueue *q = calloc(1, sizeof(NullQueue));

        if (q)
                *q = (NullQueue){.hal.ops = &hal_null_ops, .device_queue = fake_queue_new(d)};
        return &q->hal;
}

static HalQueue *device_queue(HalQueue *q) {
        return container_of(q, NullQueue, hal)->device_queue;
}

static void null_drop(HalQueue *q) {
        fake_queue_free(device_queue(q));
        free(q);
}

static uint64_t null_submit(HalQueue *q, uint64_t duration) {
        return fake_queue_submit(device_queue(q), duration);
}

static unsigned null_times(HalQueue *q, uint64_t n) {
        return fake_queue_dispatch(device_queue(q), n).times;
}

static uint64_t null_progress(HalQueue *q) {
        return fake_queue_progress(device_queue(q));
}

static const HalDriver null_driver = {
                .ops = &hal_null_ops,
                .max_level = LEVEL_OBSERVE,
                .inherit = HAL_INHERIT_RUN,
                .device_new = fake_start,
                .device_free = fake_stop,
                .queue_new = null_make,
                .queue_free = null_drop,
                .submit = null_submit,
                .run = fake_run,
                .times_done = null_times,
                .progress = null_progress,
                .exact = true,
};

/* --- the rest --- */

static void test_fake_time(void **state) {
        FakeDevice *d = fake_device_new();
        HalQueue *q[] = {fake_queue_new(d), fake_queue_new(d)};

        assert_int_equal(fake_queue_submit(q[0], 100), 0);
        assert_int_equal(fake_queue_submit(q[0], 50), 1);
        assert_int_equal(fake_queue_submit(q[1], 1000), 0);
        fake_device_run(d, 120);
        assert_int_equal(fake_queue_dispatch(q[0], 0).finished_ns, 100);
        assert_int_equal(fake_queue_dispatch(q[0], 1).done_ns, 20);
        assert_int_equal(fake_queue_dispatch(q[0], 1).finished_ns, 0);

        /* A hold takes time, in which all queues still work. */
        fake_device_set_costs(d, &(HalCosts){.hold_ns = 10, .release_ns = 5});
        assert_int_equal(hal_fake_ops.hold(q, 1), 0);
        assert_int_equal(fake_device_now(d), 130);
        assert_int_equal(fake_queue_dispatch(q[0], 1).done_ns, 30);
        fake_device_run(d, 100);
        assert_int_equal(fake_queue_dispatch(q[0], 1).done_ns, 30);
        assert_int_equal(fake_queue_progress(q[1]), 230);
        assert_int_equal(hal_fake_ops.hold(q, 1), 0); /* no call is made */
        assert_int_equal(fake_device_now(d), 230);
        assert_int_equal(hal_fake_ops.release(q, 1), 0);
        fake_device_run(d, 20);
        assert_int_equal(fake_queue_dispatch(q[0], 1).finished_ns, 255);

        for (size_t i = 0; i < 2; i++)
                fake_queue_free(q[i]);
        fake_device_free(d);
}

static int never_back(HalQueue *q, bool held) {
        return held && q->ops ? 0 : -EIO;
}

/* After a failed rollback each queue's state is reported as it is. */
static void test_failed_rollback(void **state) {
        HalQueue a = {.ops = &hal_null_ops}, b = {};
        HalQueue *batch[] = {&a, &b};

        assert_int_equal(hal_apply_each(batch, 2, true, never_back), -EIO);
        assert_true(a.held);
        assert_false(b.held);
}

static void test_learn(void **state) {
        assert_int_equal(hal_learn_cost(0, 800), 800);
        assert_int_equal(hal_learn_cost(800, 0), 701);
        assert_int_equal(hal_learn_cost(800, 1600), 900);
        assert_int_equal(hal_learn_cost(0, 0), 1);
        uint64_t estimate = 1;
        for (int i = 0; i < 200; i++)
                estimate = hal_learn_cost(estimate, NSEC_PER_MSEC);
        assert_in_range(estimate, NSEC_PER_MSEC - 100, NSEC_PER_MSEC);
        assert_true(hal_learn_cost(UINT64_MAX - 1, UINT64_MAX) >= UINT64_MAX - 1);
}

int main(int argc, char *argv[]) {
        static const HalDriver *const drivers[] = {&fake_driver, &null_driver, NULL};
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_fake_time),
                        cmocka_unit_test(test_failed_rollback),
                        cmocka_unit_test(test_learn),
        };

        if (hal_suite_main(drivers, argc, argv) != 0)
                return EXIT_FAILURE;
        return argc > 1 ? EXIT_SUCCESS : cmocka_run_group_tests(tests, NULL, NULL);
}
