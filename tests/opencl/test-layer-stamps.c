/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long launches take by the device's own time stamps, over a simulated runtime that calls back late
 */

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-stamps.h"
#include "shim/opencl/opencl-time.h"

#define KERNEL(n) kernel_of_own_place(n)
#define ITEMS     KERNEL_ITEMS
#define STAMP_NS  (100 * NSEC_PER_USEC)
#define WAIT_NS   (3 * STAMP_NS)

static void run_for(uint64_t ns) {
        uint64_t until = now_ns() + ns;

        while (now_ns() < until)
                ;
}

static uint64_t kind(int n) {
        const size_t items = ITEMS;

        return opencl_time_kind(KERNEL(n), 1, &items);
}

static void launch_kernel(cl_command_queue q, int n, cl_event *event) {
        const size_t items = ITEMS;

        assert_int_equal(cl->clEnqueueNDRangeKernel(q, KERNEL(n), 1, NULL, &items, NULL, 0, NULL, event), CL_SUCCESS);
}

/* A synchronous program whose launches take time to reach the device, and wait there for other clients' work. */
static OpenclQueue *play(cl_command_queue q, int n) {
        library.track = true;
        for (int i = 0; i < n; i++) {
                launch_kernel(q, 0, NULL);
                run_for(WAIT_NS);
                finish(q);
        }
        return opencl_queue_find(q);
}

static void test_measured(void **state) {
        cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);

        sim.stamp_ns = STAMP_NS;
        OpenclQueue *record = play(q, 400);
        assert_in_range(opencl_time_expected(record, kind(0)), STAMP_NS - 1, STAMP_NS * 21 / 20);
        assert_in_range(atomic_load(&record->mean_ns), STAMP_NS - 1, STAMP_NS * 21 / 20);

        /* The program's launches become longer: the mean follows. */
        sim.stamp_ns = 2 * STAMP_NS;
        (void) play(q, 800);
        assert_in_range(opencl_time_expected(record, kind(0)), 2 * STAMP_NS * 19 / 20, 2 * STAMP_NS);

        /* A launch that was not measured yet counts by the first guess. */
        sim.stamp_ns = 0;
        launch_kernel(q, 1, NULL);
        run_for(STAMP_NS);
        finish(q);
        assert_true(opencl_time_expected(record, kind(1)) >= STAMP_NS);
        release(q);
}

/* While no thread waits for a launch, and none fails, the layer asks for no launch's time stamps early, or twice. */
static void test_asks_seldom(void **state) {
        cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);

        sim.stamp_ns = 10 * NSEC_PER_USEC;
        library.track = true;
        for (int i = 0; i < 1000; i++) {
                launch_kernel(q, 0, NULL);
                finish(q);
        }
        assert_in_range(sim.n.stamps, 1000 / (4 * OPENCL_STAMPS_EVERY), 4 * 1000 / OPENCL_STAMPS_EVERY);
        assert_in_range(opencl_time_expected(opencl_queue_find(q), kind(0)), sim.stamp_ns - 1, sim.stamp_ns * 21 / 20);
        release(q);
}

static void test_who_is_not_asked(void **state) {
        sim.stamp_ns = STAMP_NS;

        /* A queue without profiling. */
        cl_command_queue q = queue(0);
        assert_true(atomic_load(&play(q, 10)->mean_ns) >= WAIT_NS);
        assert_int_equal(sim.n.stamps, 0);
        release(q);

        /* A device that calls back at once. */
        sim.is_cpu = true;
        q = queue(CL_QUEUE_PROFILING_ENABLE);
        (void) play(q, 10);
        assert_int_equal(sim.n.stamps, 0);
        release(q);
        sim.is_cpu = false;

        /* Launches that failed. */
        q = queue(CL_QUEUE_PROFILING_ENABLE);
        for (int i = 0; i < 10; i++) {
                launch_kernel(q, 0, NULL);
                sim_end(sim.n_events - 1, CL_OUT_OF_RESOURCES);
                finish(q);
        }
        assert_int_equal(sim.n.stamps, 0);
        release(q);
}

/* A program whose launches are known to be short goes on to long ones: the layer asks for the time stamps of a launch
 * that took long. */
static void test_launches_become_longer(void **state) {
        cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);

        sim.stamp_ns = 10 * NSEC_PER_USEC;
        library.track = true;
        for (int i = 0; i < 200; i++) {
                launch_kernel(q, 0, NULL);
                finish(q);
        }
        sim.n.stamps = 0;
        sim.stamp_ns = OPENCL_STAMPS_LATE_NS;
        for (int i = 0; i < 20; i++) {
                launch_kernel(q, 0, NULL);
                run_for(OPENCL_STAMPS_LATE_NS);
                finish(q);
        }
        assert_in_range(sim.n.stamps, 19, 20);
        assert_in_range(opencl_time_expected(opencl_queue_find(q), kind(0)), OPENCL_STAMPS_LATE_NS / 2,
                        OPENCL_STAMPS_LATE_NS);
        release(q);
}

/* A runtime that keeps no time stamps: the layer works as without profiling, and stops asking. */
static void test_runtime_that_keeps_none(void **state) {
        cl_command_queue q = queue(CL_QUEUE_PROFILING_ENABLE);
        OpenclQueue *record = play(q, 200);

        assert_true(atomic_load(&record->mean_ns) >= WAIT_NS);
        assert_in_range(sim.n.stamps, 1, 64);
        release(q);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_measured, layer_setup, layer_teardown),
                        cmocka_unit_test_setup_teardown(test_asks_seldom, layer_setup, layer_teardown),
                        cmocka_unit_test_setup_teardown(test_who_is_not_asked, layer_setup, layer_teardown),
                        cmocka_unit_test_setup_teardown(test_launches_become_longer, layer_setup, layer_teardown),
                        cmocka_unit_test_setup_teardown(test_runtime_that_keeps_none, layer_setup, layer_teardown),
        };

        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
