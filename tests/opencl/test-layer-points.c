/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which launches of a tail have events, over a simulated runtime: how far apart they are, and what the layer computes
 * between them
 */

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"

/* One launch in eight has an event, which also tells the end of the launches before it. */
static void test_points(void **state) {
        cl_command_queue q = waiting_queue(0);

        int callbacks = sim.n.callbacks;
        launches(q, 48);
        assert_in_range(n_events_held(), 5, 6);
        assert_int_equal(sim.n.callbacks, callbacks);
        assert_int_equal(library.completed, 0);

        /* A launch that finds many in flight looks which have ended. */
        sim_complete_to(40);
        launches(q, 40);
        assert_in_range(library.completed, 32, 40);
        finish(q);
        assert_int_equal(library.completed, 88);
        assert_true(has_tail(q));
        release(q);
}

/* A queue whose launches are known to take `ns`, and are no samples. */
static cl_command_queue short_queue(uint64_t ns) {
        sim.is_cpu = true;
        cl_command_queue q = waiting_queue(0);
        takes(q, ns);
        atomic_store(&opencl_queue_find(q)->no_samples, true);
        return q;
}

/* Short launches need fewer events; with a bound, four within the bound. */
static void test_points_of_short_launches(void **state) {
        const struct {
                uint64_t ns;
                uint32_t limit;
                int n, events;
        } cases[] = {
                        {1 * NSEC_PER_USEC, 0, 192, 3},
                        {5 * NSEC_PER_USEC, 0, 60, 3},
                        {20 * NSEC_PER_USEC, 0, 48, 6},
                        {1 * NSEC_PER_USEC, 160, 120, 3},
                        {1 * NSEC_PER_USEC, 48, 47, 3},
                        {20 * NSEC_PER_USEC, 48, 47, 5},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                cl_command_queue q = short_queue(cases[i].ns);
                library.limit = cases[i].limit;
                launches(q, cases[i].n);
                assert_int_equal(n_events_held(), cases[i].events);
                assert_int_equal(library.completed, 0);
                library.limit = 0;
                finish(q);
                assert_int_equal(library.completed, cases[i].n);
                release(q);
        }
}

/* Where ends are noticed late, the lengths of launches are learned from events: only those that are as short as their
 * submission have fewer, and one within the bound. */
static void test_points_where_ends_are_late(void **state) {
        const struct {
                uint64_t ns;
                uint32_t limit;
                int n, events;
        } cases[] = {
                        {1 * NSEC_PER_USEC, 0, 192, 3},
                        {5 * NSEC_PER_USEC, 0, 120, 3},
                        {15 * NSEC_PER_USEC, 0, 48, 6},
                        {1 * NSEC_PER_USEC, 90, 90, 1},
                        {1 * NSEC_PER_USEC, 48, 48, 1},
                        {15 * NSEC_PER_USEC, 100, 48, 6},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                cl_command_queue q = waiting_queue(0);
                takes(q, cases[i].ns);
                library.limit = cases[i].limit;
                launches(q, cases[i].n);
                assert_int_equal(n_events_held(), cases[i].events);
                assert_int_equal(library.completed, 0);
                library.limit = 0;
                finish(q);
                assert_int_equal(library.completed, cases[i].n);
                release(q);
        }
}

/* Between events the bound is computed anew only when the service changed something, or for another kind of launch. */
static void test_bound_between_points(void **state) {
        cl_command_queue q = short_queue(NSEC_PER_USEC);
        OpenclQueue *record = opencl_queue_find(q);
        uint64_t kind = opencl_time_kind(NULL, 1, NULL), other = opencl_time_kind(&q, 1, NULL);

        launches(q, 20);
        assert_int_equal(n_events_held(), 0);
        assert_true(opencl_tail_goes_on(record, kind));
        assert_false(opencl_tail_goes_on(record, other));
        assert_false(opencl_bound_is_reached(record, kind));
        library.limit = 20;
        assert_false(opencl_tail_goes_on(record, kind));
        assert_true(opencl_bound_is_reached(record, kind));
        library.limit = 0;
        assert_true(opencl_tail_goes_on(record, kind));
        library.held = true;
        assert_false(opencl_tail_goes_on(record, kind));
        library.held = false;
        finish(q);
        assert_int_equal(library.completed, 20);
        release(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_points),
                        T(test_points_of_short_launches),
                        T(test_points_where_ends_are_late),
                        T(test_bound_between_points),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
