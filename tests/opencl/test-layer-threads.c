/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer over a simulated runtime, where several threads use one queue, or jump out of a call
 */

#include <setjmp.h>

#include "layer-fixture.h"

static cl_event behind;

static void launch_another(cl_command_queue q) {
        assert_int_equal(launch(q, 0, NULL, &behind), CL_SUCCESS);
}

/* Two threads at once: the later number need not be the later command. */
static void test_two_at_once(void **state) {
        cl_command_queue q = waiting_queue(0);

        sim.in_enqueue = launch_another; /* its number is lower, though it comes second */
        launches(q, 1);
        sim_end(0, CL_COMPLETE);
        opencl_harvest(opencl_queue_find(q), 0);
        assert_int_equal(library.completed, 0);
        sim_end(1, CL_COMPLETE);
        opencl_harvest(opencl_queue_find(q), 0);
        assert_int_equal(library.completed, 1); /* the other's number came after its call */
        assert_int_equal(cl->clReleaseEvent(behind), CL_SUCCESS);

        launches(q, 1);
        assert_int_equal(n_events_held(), 1);
        sim_complete_to(sim.n_events);
        opencl_harvest(opencl_queue_find(q), 0);
        assert_int_equal(library.completed, 3);
        release(q);
}

static cl_command_queue asked;
static int n_asked;

static void ask_again(void) {
        if (n_asked++ < 1000)
                opencl_harvest(opencl_queue_find(asked), 0);
}

/* A thread that is asked to look again and again comes back to its own work; the control thread does the rest. */
static void test_harvester_comes_back(void **state) {
        cl_command_queue q = asked = queue(0);

        library.track = true;
        launches(q, 3);
        n_asked = 0;
        sim.in_query = ask_again;
        opencl_harvest(opencl_queue_find(q), 0);
        sim.in_query = NULL;
        assert_in_range(n_asked, 1, 100);
        assert_true(library_look(library.last));
        assert_false(opencl_queue_find(q)->again);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 3);
        release(q);
}

static sigjmp_buf out;

static void jump_out(void) {
        siglongjmp(out, 1);
}

static void wait_and_jump(cl_event e) {
        sim.in_wait = jump_out;
        if (sigsetjmp(out, 0) == 0)
                (void) cl->clWaitForEvents(1, &e);
        sim.in_wait = NULL;
}

/* The state that a jump out of a wait leaves behind ends with the thread's next wait. */
static void test_wait_is_left(void **state) {
        cl_command_queue q = queue(0), last = queue(0);
        cl_event e, f;

        library.track = true;
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        assert_int_equal(launch(last, 0, NULL, &f), CL_SUCCESS);
        OpenclQueue *record = opencl_queue_find(q);
        uint32_t life = atomic_load(&record->life);
        for (int i = 0; i < 3; i++) {
                wait_and_jump(e);
                assert_int_equal(atomic_load(&record->event_waits), 1);
                assert_int_equal(atomic_load(&record->life), life + 1);
        }
        assert_int_equal(cl->clWaitForEvents(1, &f), CL_SUCCESS);
        assert_int_equal(atomic_load(&record->event_waits), 0);
        assert_int_equal(atomic_load(&record->life), life);
        assert_int_equal(cl->clWaitForEvents(1, &e), CL_SUCCESS);
        assert_int_equal(library.completed, 2);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        assert_int_equal(cl->clReleaseEvent(f), CL_SUCCESS);
        release(q);
        release(last);
}

/* A thread blocks in a write while another launches: they do not count as two threads that fill the queue. */
static void test_launch_beside_a_write(void **state) {
        cl_command_queue q = waiting_queue(0);

        sim.in_enqueue = launch_another;
        assert_int_equal(cl->clEnqueueWriteBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
        assert_false(atomic_load(&opencl_queue_find(q)->multi_threaded));
        assert_true(has_tail(q));
        sim_end(0, CL_COMPLETE); /* the write; its number came later */
        opencl_harvest(opencl_queue_find(q), 0);
        assert_in_range(library.completed, 0, 1);
        sim_end(1, CL_COMPLETE);
        opencl_harvest(opencl_queue_find(q), 0);
        finish(q);
        assert_int_equal(library.completed, 2);
        assert_int_equal(cl->clReleaseEvent(behind), CL_SUCCESS);

        sim.in_enqueue = launch_another;
        assert_int_equal(cl->clEnqueueWriteBuffer(q, NULL, CL_FALSE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
        assert_true(atomic_load(&opencl_queue_find(q)->multi_threaded));
        finish(q);
        assert_int_equal(cl->clReleaseEvent(behind), CL_SUCCESS);
        release(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_two_at_once),
                        T(test_launch_beside_a_write),
                        T(test_harvester_comes_back),
                        T(test_wait_is_left),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
