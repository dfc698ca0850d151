/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The OpenCL layer on NVIDIA's driver, over a simulated runtime: ends are found by asking (opencl-sentinel.h)
 */

#include <pthread.h>

#include "layer-fixture.h"
#include "shim/opencl/opencl-life.h"
#include "shim/opencl/opencl-own.h"
#include "tests/lib/deadline.h"

static void look(void) {
        assert_true(library_look(library.last));
}

/* Every end is found by asking. Nobody requests a callback, and the control thread puts and flushes nothing. */
static void test_polls(void **state) {
        sim.is_nvidia = true;
        cl_command_queue q = queue(0);

        library.track = true;
        for (int i = 1; i <= 20; i++) {
                launches(q, 1);
                SimCounters before = sim.n;
                look();
                assert_int_equal(library.completed, i - 1);
                sim_complete_to(i);
                assert_int_equal(library.completed, i - 1);
                look();
                assert_int_equal(library.completed, i);
                assert_int_equal(sim.n.flushes, before.flushes);
                assert_int_equal(sim.n.markers, before.markers);
        }
        assert_false(library_look(library.last));
        assert_int_equal(sim.n.callbacks, 0);
        release(q);
}

/* While the queue is held, the end is looked for soon; and ever less often the longer it fails to come. What is long
 * overdue is flushed once. */
static void test_polls_rarely(void **state) {
        sim.is_nvidia = true;
        cl_command_queue q = queue(0);

        library.track = true;
        launches(q, 1);
        look();
        uint64_t open_ns = library.look_in_ns;
        library.held = true;
        look();
        assert_true(library.look_in_ns < open_ns);
        int flushes = sim.n.flushes;
        for (int i = 0; i < 100; i++)
                look();
        assert_true(library.look_in_ns > open_ns);
        assert_int_equal(sim.n.flushes, flushes + 1);
        sim_complete_to(1);
        look();
        assert_int_equal(library.completed, 1);
        assert_false(library_look(library.last));
        assert_int_equal(sim.n.callbacks, 0);
        library.held = false;
        release(q);
}

typedef struct Launch {
        cl_command_queue q;
        atomic_bool made;
} Launch;

static void *launch_one(void *userdata) {
        Launch *l = userdata;

        launches(l->q, 1);
        atomic_store(&l->made, true);
        pthread_testcancel();
        return NULL;
}

/* A launch that sleeps at the bound is no cancellation point. */
static void test_cancelled_at_the_bound(void **state) {
        sim.is_nvidia = true;
        Launch l = {.q = queue(0)};
        OpenclQueue *record = opencl_queue_find(l.q);
        pthread_t thread;
        void *end;

        library.track = true;
        library.limit = 1;
        launches(l.q, 1);
        (void) pthread_mutex_lock(&record->lock);
        record->tracked[record->head].expected_ns = NSEC_PER_SEC;
        (void) pthread_mutex_unlock(&record->lock);
        assert_int_equal(pthread_create(&thread, NULL, launch_one, &l), 0);
        assert_true(poll_until(atomic_load(&record->bound_waiters) > 0));
        assert_int_equal(pthread_cancel(thread), 0);
        sim_complete_to(1);
        assert_int_equal(pthread_join(thread, &end), 0);
        assert_ptr_equal(end, PTHREAD_CANCELED);
        assert_true(atomic_load(&l.made));
        assert_int_equal(atomic_load(&record->bound_waiters), 0);
        finish(l.q);
        release(l.q);
}

/* The thread that launches puts a drain; if none launches, a look does. */
static void test_drains_by_a_launch(void **state) {
        sim.is_nvidia = true;
        cl_command_queue q = queue(0);

        launches(q, 3);
        library.track = true;
        library.last->info.drain(library.last, library.last->info.userdata);
        assert_int_equal(sim.n.markers, 0);
        launches(q, 1);
        assert_int_equal(sim.n.markers, 1);
        sim_complete_to(4);
        look();
        assert_int_equal(library.drained, 1);
        assert_int_equal(library.completed, 0);
        sim_complete_to(5);
        look();
        assert_int_equal(library.completed, 1);

        library.last->info.drain(library.last, library.last->info.userdata);
        library.last->info.drain(library.last, library.last->info.userdata);
        look();
        assert_int_equal(sim.n.markers, 3);
        sim_complete_to(7);
        look();
        assert_int_equal(library.drained, 3);
        assert_int_equal(sim.n.callbacks, 0);
        release(q);
}

/* The layer ends while a drain waits for a look, and is asked for one after that: nothing puts either. */
static void test_drains_at_the_end(void **state) {
        sim.is_nvidia = true;
        cl_command_queue q = queue(0);
        XschedQueue *xq = library.last;

        launches(q, 3);
        library.track = true;
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(library.drained, 0);
        opencl_own_stop();
        opencl_queue_forget_all();
        assert_int_equal(library.drained, 1);
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(library.drained, 2);
        (void) library_look(xq);
        assert_int_equal(library.drained, 2);

        /* A control thread that began before the end, and was stalled for longer than the end waits. */
        opencl_own_restart();
        xq->info.drain(xq, xq->info.userdata);
        assert_int_equal(library.drained, 3);
        assert_int_equal(sim.n.markers, 0);
        sim_complete_to(3);
        release(q);
}

/* The program releases its queue after the layer's end, with a launch in flight: the runtime may be gone. */
static void test_release_after_the_end(void **state) {
        sim.is_nvidia = true;
        cl_command_queue q = queue(0);

        library.track = true;
        launches(q, 1);
        cl_event left = sim.events[0];
        opencl_own_stop();
        release(q);
        assert_int_equal(library.completed, 1);
        sim_complete_to(1);
        assert_int_equal(sim.n.events_alive, 1);
        opencl_own_restart();
        (void) opencl_next.clReleaseEvent(left);
}

#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                        T(test_polls),
                        T(test_polls_rarely),
                        T(test_cancelled_at_the_bound),
                        T(test_drains_by_a_launch),
                        cmocka_unit_test_setup_teardown(test_drains_at_the_end, layer_setup, forgotten_teardown),
                        cmocka_unit_test_setup_teardown(test_release_after_the_end, layer_setup, forgotten_teardown),
        };

        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
