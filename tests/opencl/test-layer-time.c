/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long launches take, over a simulated runtime: which launches are samples, and how a bound in time uses them
 */

#include <time.h>

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-time.h"
#include "shim/opencl/opencl-track.h"

#define KERNEL(n) kernel_of_own_place(n)

static OpenclQueue *made(cl_command_queue *ret) {
        library.track = true;
        *ret = queue(0);
        return opencl_queue_find(*ret);
}

static void run_for(uint64_t ns) {
        uint64_t until = now_ns() + ns;

        while (now_ns() < until)
                ;
}

static void launch_kernel(cl_command_queue q, int n, size_t items) {
        assert_int_equal(cl->clEnqueueNDRangeKernel(q, KERNEL(n), 1, NULL, &items, NULL, 0, NULL, NULL), CL_SUCCESS);
}

static uint64_t kind(int n, size_t items) {
        return opencl_time_kind(KERNEL(n), 1, &items);
}

/* A sample lasts from the launch's begin, however long it was on its way, to its end, however late the layer learns of
 * it. */
static void test_samples(void **state) {
        sim.is_cpu = true;
        cl_command_queue q;
        OpenclQueue *record = made(&q);
        uint64_t taken = 0;

        for (int i = 0; i < 20; i++) {
                launch_kernel(q, 0, 64);
                run_for(3 * NSEC_PER_MSEC);
                uint64_t began = now_ns();
                sim_begin(i);
                run_for(NSEC_PER_MSEC);
                sim_end(i, CL_COMPLETE);
                taken = MAX(taken, now_ns() - began);
        }
        uint64_t mean = opencl_time_expected(record, kind(0, 64));
        assert_in_range(mean, NSEC_PER_MSEC, taken);
        assert_in_range(atomic_load(&record->mean_ns), NSEC_PER_MSEC, taken);
        assert_true(library.device_ns > 0);
        assert_int_equal(atomic_load(&record->flying_ns), 0);
        assert_null(record->samples);
        assert_int_equal(opencl_time_expected(record, kind(1, 64)), 0);
        assert_int_equal(opencl_time_expected(record, kind(0, 6400)), 0); /* more work is another kind */
        release(q);
}

/* A runtime that tells of the beginning with the end, or after it, is not asked again. */
static void test_runtime_that_does_not_tell(void **state) {
        sim.is_cpu = true;
        cl_command_queue q;
        OpenclQueue *record = made(&q);

        launch_kernel(q, 0, 64);
        assert_non_null(record->samples);
        sim_end(0, CL_COMPLETE);
        assert_null(record->samples);
        assert_true(atomic_load(&record->no_samples));
        int callbacks = sim.n.callbacks;
        launch_kernel(q, 0, 64);
        assert_int_equal(sim.n.callbacks, callbacks + 1); /* the idle one */
        sim_end(1, CL_COMPLETE);
        release(q);
}

/* A launch that failed is no sample, whether or not the runtime calls, and keeps no queue. */
static void test_failed(void **state) {
        for (int forgets = 0; forgets < 2; forgets++) {
                sim_reset();
                sim.is_cpu = true;
                sim.forget_failed = forgets;
                cl_command_queue q;
                OpenclQueue *record = made(&q);

                launch_kernel(q, 0, 64);
                sim_begin(0);
                sim_end(0, CL_OUT_OF_RESOURCES);
                opencl_harvest(record, 0);
                assert_null(record->samples);
                assert_int_equal(atomic_load(&record->mean_ns), 0);
                release(q);
                assert_int_equal(library.queues_alive, 0);
        }
}

/* Without callbacks: a program that waits for each launch learns of its end at once, and its wait measures the
 * launch. */
static void test_synchronous_without_callbacks(void **state) {
        cl_command_queue q;
        OpenclQueue *record = made(&q);
        uint64_t most = 0;

        for (int i = 0; i < 20; i++) {
                uint64_t began = now_ns();
                launch_kernel(q, 0, 64);
                run_for(NSEC_PER_MSEC);
                assert_int_equal(cl->clFinish(q), CL_SUCCESS);
                most = MAX(most, now_ns() - began);
        }
        assert_in_range(atomic_load(&record->mean_ns), NSEC_PER_MSEC, most);
        release(q);
}

/* The same where most ends were noticed late, before that: the wait measures all launches since the first, and not only
 * those that it finds. */
static void test_late_without_callbacks(void **state) {
        enum { N = 5 };
        sim.late_callbacks = true;
        cl_command_queue q;
        OpenclQueue *record = made(&q);
        uint64_t began = now_ns();

        for (int i = 0; i < N; i++) {
                launch_kernel(q, 0, 64);
                run_for(100 * NSEC_PER_USEC);
        }
        sim_complete_to(N - 1);
        opencl_harvest(record, 0);
        assert_int_equal(library.completed, N - 1);
        uint64_t before = atomic_load(&record->mean_ns);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_in_range(atomic_load(&record->mean_ns), 100 * NSEC_PER_USEC, MAX(before, (now_ns() - began) / N));
        sim_call_back();
        release(q);
}

/* Has the layer not know since when the oldest launch has been in flight: that may be long, because this thread has
 * waited for a CPU. */
static void forget_begin(OpenclQueue *q) {
        atomic_store(&q->head_since_ns, 0);
}

/* The bound is one in time: an unknown kind counts as long and a short kind does not; a long kind is bounded from its
 * first launch on, whatever the queue's mean is. */
static void test_bound_by_kind(void **state) {
        sim.is_cpu = true;
        cl_command_queue q;
        OpenclQueue *record = made(&q);

        (void) pthread_mutex_lock(&record->lock);
        for (int i = 0; i < 20; i++)
                opencl_time_learn(record, kind(0, 64), 5 * NSEC_PER_USEC);
        for (int i = 0; i < 2; i++)
                opencl_time_learn(record, kind(1, 64), 500 * NSEC_PER_USEC);
        (void) pthread_mutex_unlock(&record->lock);
        assert_int_equal(opencl_time_expected(record, kind(0, 64)), 5 * NSEC_PER_USEC);

        /* One launch that was interrupted changes little; three long ones in a row mean that launches have become
         * longer. */
        (void) pthread_mutex_lock(&record->lock);
        opencl_time_learn(record, kind(0, 64), 5 * NSEC_PER_MSEC);
        assert_in_range(opencl_time_expected(record, kind(0, 64)), 5 * NSEC_PER_USEC, 6 * NSEC_PER_USEC);
        for (int i = 0; i < 2; i++)
                opencl_time_learn(record, kind(0, 64), 5 * NSEC_PER_MSEC);
        assert_true(opencl_time_expected(record, kind(0, 64)) > 500 * NSEC_PER_USEC);
        for (int i = 0; i < 80; i++)
                opencl_time_learn(record, kind(0, 64), 5 * NSEC_PER_USEC);
        assert_in_range(opencl_time_expected(record, kind(0, 64)), 4 * NSEC_PER_USEC, 6 * NSEC_PER_USEC);
        (void) pthread_mutex_unlock(&record->lock);

        library.limit = 1;
        library.budget_ns = 200 * NSEC_PER_USEC;
        launch_kernel(q, 0, 64);
        forget_begin(record);
        assert_false(opencl_bound_is_reached(record, kind(0, 64)));
        assert_in_range(library.each_ns, 4 * NSEC_PER_USEC, 6 * NSEC_PER_USEC);
        assert_true(opencl_bound_is_reached(record, kind(1, 64)));
        assert_true(library.each_ns >= 500 * NSEC_PER_USEC);
        assert_true(opencl_bound_is_reached(record, kind(2, 64)));
        assert_int_equal(library.each_ns, 0);

        /* A launch that has been in flight for far longer than its kind takes is a long one. */
        atomic_store(&record->head_since_ns, now_ns() - NSEC_PER_SEC);
        assert_true(opencl_bound_is_reached(record, kind(0, 64)));
        assert_true(library.each_ns > library.budget_ns);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);

        /* A launch in flight counts by its own kind: behind a long one there is no room for a short one. */
        launch_kernel(q, 1, 64);
        forget_begin(record);
        assert_true(opencl_bound_is_reached(record, kind(0, 64)));
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        release(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_samples),
                        T(test_runtime_that_does_not_tell),
                        T(test_failed),
                        T(test_synchronous_without_callbacks),
                        T(test_late_without_callbacks),
                        T(test_bound_by_kind),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
