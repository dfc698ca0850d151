/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches without events, over a simulated runtime: which launches have none, and that each end is reported once and
 * not too early
 */

#include <pthread.h>
#include <unistd.h>

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-close.h"
#include "shim/opencl/opencl-life.h"
#include "shim/opencl/opencl-tail.h"
#include "tests/lib/deadline.h"

static void test_waits_tell(void **state) {
        cl_command_queue q = waiting_queue(0);

        assert_true(has_tail(q));
        SimCounters before = sim.n;
        for (int i = 0; i < 100; i++) {
                launches(q, 1);
                assert_int_equal(n_events_held(), 0);
                finish(q);
                assert_int_equal(library.completed, i + 1);
        }
        launches(q, 5);
        assert_int_equal(cl->clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(library.completed, 106);
        assert_int_equal(sim.n.callbacks, before.callbacks);
        assert_int_equal(sim.n.queries, before.queries);
        assert_int_equal(sim.n.retains, before.retains);
        assert_int_equal(sim.n.markers, 0);
        assert_int_equal(library.last->outstanding, 0);
        release(q);
}

/* Launches n times while no thread waits: a look finds the queue at rest, and reports the end. */
static void launch_and_rest(cl_command_queue q, int n) {
        sim.n_events = 0;
        library.completed = 0;
        launches(q, n);
        rest();
        assert_true(library_look(library.last));
        assert_int_equal(library.completed, 0);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, n);
        assert_int_equal(library.last->outstanding, 0);
}

/* One rest may be chance; after the second, callbacks report the queue's ends. */
static void test_at_rest(void **state) {
        for (int n = 1; n <= 20; n++) {
                cl_command_queue q = waiting_queue(0);

                launch_and_rest(q, n);
                assert_true(has_tail(q));
                launch_and_rest(q, n);
                assert_false(has_tail(q));

                int callbacks = sim.n.callbacks;
                launches(q, 1);
                assert_int_equal(sim.n.callbacks, callbacks + 1);
                sim_complete_to(sim.n_events);
                assert_int_equal(library.completed, n + 1);
                release(q);
        }
}

/* The end of launches behind the marker is reported, too. */
static void test_launches_behind_a_marker(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 3);
        rest();
        assert_true(library_look(library.last));
        assert_int_equal(sim.n.markers, 1);
        launches(q, 2);
        sim_complete_to(4);
        assert_int_equal(library.completed, 3);
        sim_complete_to(6);
        for (int i = 0; i < 3 && library.completed < 5; i++) {
                rest();
                (void) library_look(library.last);
                sim_complete_to(sim.n_events);
        }
        assert_int_equal(library.completed, 5);
        release(q);
}

/* Another thread's launch comes between the marker and the launches that it covers, and the queue is released. */
static void launch_before_marker(cl_command_queue q) {
        sim.in_marker = NULL;
        launches(q, 1);
}

static void test_marker_is_overtaken(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 3);
        rest();
        sim.in_marker = launch_before_marker;
        assert_true(library_look(library.last));
        assert_int_equal(sim.n.markers, 1);
        release(q);
        assert_int_equal(sim.n.markers, 2);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 4);
        assert_int_equal(library.queues_alive, 0);
}

/* The runtime refuses callbacks: looks report the ends. */
static void test_no_callbacks(void **state) {
        cl_command_queue q = queue(0);

        sim.no_callbacks = true;
        library.track = true;
        launches(q, 3);
        for (int i = 0; i < 3; i++) {
                rest();
                assert_true(library_look(library.last));
        }
        assert_int_equal(library.completed, 0);
        sim_complete_to(sim.n_events);
        rest();
        assert_true(library_look(library.last));
        assert_int_equal(library.completed, 3);
        assert_false(library_look(library.last));
        release(q);
}

static cl_command_queue beside;

static void launch_beside(void) {
        for (int i = 0; i < 20; i++) {
                launches(beside, 1);
                sim_end(sim.n_events - 1, CL_COMPLETE);
        }
}

/* A wait for another queue's event tells nothing of this queue. */
static void test_waits_for_others(void **state) {
        cl_command_queue q = queue(0);
        cl_event e;

        library.track = true;
        beside = queue(0);
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        sim.in_wait = launch_beside;
        assert_int_equal(cl->clWaitForEvents(1, &e), CL_SUCCESS);
        sim.in_wait = NULL;
        assert_int_equal(library.completed, 21);
        assert_false(has_tail(beside));
        assert_int_equal(atomic_load(&opencl_queue_find(q)->event_waits), 0);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        for (int i = 0; i < 20; i++) {
                assert_int_equal(launch(beside, 0, NULL, &e), CL_SUCCESS);
                assert_int_equal(cl->clWaitForEvents(1, &e), CL_SUCCESS);
                assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        }
        assert_true(has_tail(beside));
        release(beside);
        release(q);
}

/* The return of a blocking write tells nothing about launches before it. */
static void test_blocking_write(void **state) {
        for (int tail = 0; tail < 2; tail++) {
                cl_command_queue q = tail ? waiting_queue(0) : queue(0);
                library.track = true;
                library.completed = 0;
                launches(q, 3);
                assert_int_equal(cl->clEnqueueWriteBuffer(q, NULL, CL_TRUE, 0, 0, NULL, 0, NULL, NULL), CL_SUCCESS);
                assert_int_equal(library.completed, 0);
                finish(q);
                assert_int_equal(library.completed, 4);
                release(q);
        }
}

static int looks_in_finish;

static void look_in_finish(void) {
        rest();
        for (int i = 0; i < looks_in_finish; i++)
                assert_true(library_look(library.last));
}

/* The layer relies on the application's waits to report ends, but not for ever. */
static void test_waits_are_trusted(void **state) {
        cl_command_queue q = waiting_queue(0);

        looks_in_finish = 10;
        sim.in_finish = look_in_finish;
        launches(q, 1);
        finish(q);
        assert_int_equal(sim.n.markers, 0);
        assert_int_equal(library.completed, 1);

        looks_in_finish = 16;
        launches(q, 1);
        finish(q);
        assert_int_equal(sim.n.markers, 1);
        assert_int_equal(library.completed, 2);
        assert_true(has_tail(q));
        sim.in_finish = NULL;
        release(q);
}

static atomic_bool in_finish;

static void wait_for_ever(void) {
        atomic_store(&in_finish, true);
        for (;;)
                (void) pause();
}

static void *finish_for_ever(void *queue) {
        (void) cl->clFinish(queue);
        return NULL;
}

static void test_wait_is_cancelled(void **state) {
        cl_command_queue q = waiting_queue(0);
        pthread_t thread;
        void *result;

        launches(q, 3);
        atomic_store(&in_finish, false);
        sim.in_finish = wait_for_ever;
        assert_int_equal(pthread_create(&thread, NULL, finish_for_ever, q), 0);
        assert_true(poll_until(atomic_load(&in_finish)));
        assert_int_equal(atomic_load(&opencl_queue_find(q)->app_waits), 1);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        sim.in_finish = NULL;
        assert_int_equal(atomic_load(&opencl_queue_find(q)->app_waits), 0);

        rest();
        assert_true(library_look(library.last));
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 3);
        release(q);
}

/* Other clients wait for the launches in flight: a marker is put behind them at the gate or by a look, and later the
 * queue goes on without events. */
static void test_held(void **state) {
        cl_command_queue q = waiting_queue(0);

        sim.is_cpu = true;
        launches(q, 3);
        library.held = true;
        assert_true(library_look(library.last));
        assert_int_equal(sim.n.markers, 1);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 3);
        library.held = false;
        assert_true(has_tail(q));

        launches(q, 3);
        library.held = true;
        launches(q, 1);
        assert_int_equal(sim.n.markers, 2);
        library.held = false;
        finish(q);
        assert_int_equal(library.completed, 7);
        assert_true(has_tail(q));
        release(q);
}

/* The queue is never idle and never waited for to its end: launches without events begin after many launches in flight
 * one after another. */
static void test_always_busy(void **state) {
        cl_command_queue q = queue(0);

        library.track = true;
        for (int n = 20; n <= 1200; n += 20) {
                takes(q, 20 * NSEC_PER_USEC); /* what the harvest has learned depends on how busy the machine is */
                launches(q, 20);
                sim_complete_to(sim.n_events - 10);
                opencl_harvest(opencl_queue_find(q), 0);
                assert_int_equal(has_tail(q), n > 1024);
        }
        assert_in_range(n_events_held(), 1, 3);
        finish(q);
        assert_int_equal(library.completed, 1200);
        release(q);
}

/* An end was found that no wait had told, and the next launch came so long after it. */
static void pause_after_one(OpenclQueue *q, uint64_t pause_ns) {
        (void) pthread_mutex_lock(&q->lock);
        q->last_seq++;
        opencl_tail_note_idle(q, false);
        opencl_tail_note_begin(q, q->untold_ns + pause_ns);
        (void) pthread_mutex_unlock(&q->lock);
}

/* Without a tail each launch is over before the host has made the next: many in a row have a tail, as if they had been
 * in flight together. An application that lets the device wait in between is another case. */
static void test_over_before_the_next(void **state) {
        const uint64_t pauses_ns[] = {5 * NSEC_PER_USEC, 15 * NSEC_PER_USEC};

        for (size_t i = 0; i < ELEMENTSOF(pauses_ns); i++) {
                cl_command_queue q = queue(0);
                for (int n = 1; n <= 3000; n++) {
                        pause_after_one(opencl_queue_find(q), pauses_ns[i]);
                        assert_int_equal(has_tail(q), i == 0 && n >= 1024);
                }
                release(q);
        }
}

/* The application's launch waited at the gate: that was no pause of its own. */
static void test_gate_is_no_pause(void **state) {
        cl_command_queue q = waiting_queue(0);
        OpenclQueue *record = opencl_queue_find(q);

        atomic_store(&record->was_held, true);
        for (int i = 0; i < 5; i++)
                pause_after_one(record, 20 * NSEC_PER_MSEC);
        assert_true(has_tail(q));
        atomic_store(&record->was_held, false);
        for (int i = 0; i < 2; i++)
                pause_after_one(record, 20 * NSEC_PER_MSEC);
        assert_false(has_tail(q));
        release(q);
}

/* Turns of other clients end the launches in flight time and again: the queue does not count as at rest. */
static void test_held_is_no_rest(void **state) {
        cl_command_queue q = waiting_queue(0);

        for (int i = 0; i < 5; i++) {
                launches(q, 3);
                library.held = true;
                (void) library_look(library.last);
                sim_complete_to(sim.n_events);
                assert_int_equal(library.completed, 3 * (i + 1));
                for (int n = 0; n < 5; n++)
                        rest();
                library.held = false;
        }
        assert_true(has_tail(q));
        release(q);
}

static void test_release_closes(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 5);
        release(q);
        assert_int_equal(sim.n.markers, 1);
        assert_int_equal(library.queues_alive, 1);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 5);
        assert_int_equal(library.queues_alive, 0);
}

/* The runtime refuses markers: the ends are reported when the queue is released, at the latest. */
static void test_no_marker(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 5);
        sim.fail_next = CL_OUT_OF_HOST_MEMORY;
        release(q);
        sim_complete_to(sim.n_events);
        assert_int_equal(library.queues_alive, 0);
        assert_int_equal(library.completed, 5);
}

/* The device is lost: the runtime refuses even a marker, so no event can tell the end. The layer's looks end. */
static void test_lost_device(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 5);
        rest();
        sim.fail_next = CL_OUT_OF_RESOURCES;
        assert_true(library_look(library.last));
        assert_int_equal(library.completed, 5);
        assert_int_equal(library.last->outstanding, 0);
        assert_false(library_look(library.last));
        sim_complete_to(sim.n_events);
        assert_int_equal(library.completed, 5);
        release(q);
}

/* A launch fails with its wait list while the launches before it run, whichever thread learns of the failure. */
static void test_failed_tells_of_itself(void **state) {
        enum { ASKED, WAITED, LOOKED, _HOW_MAX };

        for (int how = 0; how < _HOW_MAX; how++) {
                cl_command_queue q = waiting_queue(0);
                cl_event e;
                cl_int status;

                launches(q, 2);
                assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
                sim_end(2, CL_OUT_OF_RESOURCES);
                if (how == ASKED)
                        (void) cl->clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL);
                else if (how == WAITED)
                        (void) cl->clWaitForEvents(1, &e);
                else {
                        rest();
                        (void) library_look(library.last);
                }
                assert_in_range(library.completed, 0, 1);
                finish(q);
                assert_int_equal(library.completed, 3);
                assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                release(q);
        }
}

static void test_out_of_order_has_none(void **state) {
        cl_command_queue q = waiting_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);

        launches(q, 20);
        assert_int_equal(n_events_held(), 20);
        finish(q);
        assert_int_equal(library.completed, 20);

        /* The queue gets the property later: launches in flight without events end by the wait. */
        cl_command_queue other = waiting_queue(0);
        launches(other, 3);
        assert_int_equal(cl->clSetCommandQueueProperty(other, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_TRUE, NULL),
                        CL_SUCCESS);
        launches(other, 3);
        assert_int_equal(n_events_held(), 3);
        sim_end(3, CL_COMPLETE);
        sim_end(4, CL_COMPLETE);
        opencl_harvest(opencl_queue_find(other), 0);
        assert_int_equal(library.completed, 2);
        finish(other);
        assert_int_equal(library.completed, 6);
        release(q);
        release(other);
}

/* The application's own events are unchanged, and a query of one reports ends. */
static void test_own_events(void **state) {
        cl_command_queue q = waiting_queue(0);
        cl_event e[3];
        cl_int status;

        launches(q, 3);
        for (size_t i = 0; i < ELEMENTSOF(e); i++) {
                assert_int_equal(launch(q, 0, NULL, e + i), CL_SUCCESS);
                assert_int_equal(references(e[i]), 1);
        }
        int callbacks = sim.n.callbacks;
        sim_complete_to(5);
        assert_int_equal(library.completed, 0);
        assert_int_equal(cl->clGetEventInfo(e[1], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL),
                        CL_SUCCESS);
        assert_int_equal(status, CL_COMPLETE);
        assert_int_equal(library.completed, 5);
        assert_int_equal(cl->clWaitForEvents(1, e + 2), CL_SUCCESS);
        assert_int_equal(library.completed, 6);
        assert_int_equal(sim.n.callbacks, callbacks);
        for (size_t i = 0; i < ELEMENTSOF(e); i++) {
                assert_int_equal(references(e[i]), 1);
                assert_int_equal(cl->clReleaseEvent(e[i]), CL_SUCCESS);
        }
        release(q);
}

static void test_failed_launch(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 1);
        sim.fail_next = CL_OUT_OF_RESOURCES;
        assert_int_equal(launch(q, 0, NULL, NULL), CL_OUT_OF_RESOURCES);
        assert_int_equal(library.completed, 1);
        finish(q);
        assert_int_equal(library.completed, 2);
        release(q);
}

/* A bound of few launches: each launch has an event. */
static void test_short_bound(void **state) {
        cl_command_queue q = waiting_queue(0);
        OpenclQueue *record = opencl_queue_find(q);

        library.limit = 4;
        launches(q, 4);
        assert_in_range(n_events_held(), 1, 2);
        sim_complete_to(4);
        launches(q, 1);
        assert_int_equal(library.completed, 4);
        assert_int_equal(atomic_load(&record->grace), 0);
        finish(q);
        assert_int_equal(library.completed, 5);
        release(q);
}

/* A bound that is lower than twice the usual distance of events, as where tiny launches take long: the queue keeps its
 * tail, with events half of the bound apart. */
static void test_low_bound(void **state) {
        cl_command_queue q = waiting_queue(0);
        OpenclQueue *record = opencl_queue_find(q);

        library.limit = 10;
        launches(q, 10);
        assert_in_range(n_events_held(), 1, 3);
        opencl_tail_close_bound(record, 5);
        assert_true(atomic_load(&record->tail));
        finish(q);
        assert_int_equal(library.completed, 10);

        library.limit = 3;
        launches(q, 2);
        opencl_tail_close_bound(record, 1);
        assert_false(atomic_load(&record->tail));
        finish(q);
        assert_int_equal(library.completed, 12);
        release(q);
}

/* The layer ends with launches in flight that it alone knows of. */
static void test_forget(void **state) {
        cl_command_queue q = waiting_queue(0);

        launches(q, 5);
        opencl_queue_forget_all();
        assert_int_equal(library.completed, 5);
        assert_int_equal(opencl_n_busy, 0);
        (void) library_look(library.last);
        assert_int_equal(sim.n.markers, 0);
        sim_complete_to(sim.n_events);
        release(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_waits_tell),
                        T(test_marker_is_overtaken),
                        T(test_no_callbacks),
                        T(test_waits_for_others),
                        T(test_blocking_write),
                        T(test_at_rest),
                        T(test_launches_behind_a_marker),
                        T(test_waits_are_trusted),
                        T(test_wait_is_cancelled),
                        T(test_held),
                        T(test_held_is_no_rest),
                        T(test_always_busy),
                        T(test_over_before_the_next),
                        T(test_gate_is_no_pause),
                        T(test_release_closes),
                        T(test_no_marker),
                        T(test_lost_device),
                        T(test_failed_tells_of_itself),
                        T(test_out_of_order_has_none),
                        T(test_own_events),
                        T(test_failed_launch),
                        T(test_short_bound),
                        T(test_low_bound),
                        cmocka_unit_test_setup_teardown(test_forget, layer_setup, forgotten_teardown),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
