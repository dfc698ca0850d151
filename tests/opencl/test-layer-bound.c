/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bound on launches in flight over a simulated runtime: which launches wait, and which must not */

#include <pthread.h>

#include "layer-fixture.h"
#include "shim/opencl/opencl-launch.h"
#include "tests/lib/deadline.h"

typedef struct Bounded {
        cl_command_queue q;
        int n;
        atomic_int submitted;
} Bounded;

static void *launch_bounded(void *userdata) {
        Bounded *b = userdata;
        for (int i = 0; i < b->n; i++) {
                launches(b->q, 1);
                atomic_fetch_add(&b->submitted, 1);
        }
        return NULL;
}

static void test_bound_waits(void **state) {
        Bounded b = {.q = queue(0), .n = 20};
        OpenclQueue *record = opencl_queue_find(b.q);
        pthread_t thread;

        library.track = true;
        library.limit = 4;
        assert_int_equal(pthread_create(&thread, NULL, launch_bounded, &b), 0);
        for (int completed = 0; completed < 20;) {
                /* The bound is reached and one launch waits; or all launches are in flight. */
                assert_true(poll_until(atomic_load(&record->bound_waiters) > 0 || atomic_load(&b.submitted) == 20));
                int submitted = atomic_load(&b.submitted);
                assert_in_range(submitted - completed, 1, 4);
                /* The service knows of the launch that waits: the queue is not idle when the others have ended. */
                if (submitted < 20)
                        assert_int_equal(__atomic_load_n(&library.last->outstanding, __ATOMIC_SEQ_CST),
                                        submitted - completed + 1);
                completed = submitted - (submitted < 20 ? 2 : 0);
                sim_complete_to(completed);
                assert_true(poll_until(atomic_load(&b.submitted) > submitted || submitted == 20));
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&record->grace), 0);
        assert_int_equal(cl->clFinish(b.q), CL_SUCCESS);
        assert_int_equal(library.completed, 20);
        assert_true(sim.n.flushes > 0);
        release(b.q);
}

/* No launch here ever completes by itself: a thread that waited would wait for ever, or until it gives up and leaves a
 * trace. */
static void never_waits(cl_command_queue q, int n) {
        library.limit = 1;
        launches(q, n);
        assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
}

static void test_user_event(void **state) {
        for (int ooo = 0; ooo < 2; ooo++) {
                cl_command_queue q = queue(ooo ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
                cl_event user = cl->clCreateUserEvent(NULL, NULL), e, next;

                library.track = true;
                library.limit = 1;
                assert_int_equal(launch(q, 1, &user, &e), CL_SUCCESS);
                for (int i = 0; i < 20; i++) {
                        assert_int_equal(launch(q, 1, &e, &next), CL_SUCCESS);
                        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                        e = next;
                }
                assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
                assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
                assert_int_equal(cl->clFinish(q), CL_SUCCESS);

                /* Then the queue is bounded again. */
                assert_true(opencl_queue_find(q)->unsafe_seq <= opencl_queue_find(q)->done_seq);
                assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
                assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
                release(q);
        }
}

/* The launch with the wait list passed while the service did not watch. */
static void test_unwatched_user_event(void **state) {
        cl_command_queue q = queue(0);
        cl_event user = cl->clCreateUserEvent(NULL, NULL);

        assert_int_equal(launch(q, 1, &user, NULL), CL_SUCCESS);
        library.track = true;
        never_waits(q, 20);
        assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
        release(q);
}

static void test_marker_and_native_kernel(void **state) {
        for (int how = 0; how < 3; how++) {
                cl_command_queue q = queue(how == 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
                cl_event user = cl->clCreateUserEvent(NULL, NULL);

                library.track = true;
                if (how == 0)
                        assert_int_equal(cl->clEnqueueMarkerWithWaitList(q, 1, &user, NULL), CL_SUCCESS);
                else if (how == 1)
                        assert_int_equal(cl->clEnqueueNativeKernel(q, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL),
                                        CL_SUCCESS);
                else
                        assert_int_equal(cl->clEnqueueBarrier(q), CL_SUCCESS);
                never_waits(q, 20);
                assert_int_equal(cl->clFinish(q), CL_SUCCESS);
                assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
                assert_int_equal(cl->clReleaseEvent(user), CL_SUCCESS);
                release(q);
        }
}

/* A launch of another queue counts as safe to wait for once it is enqueued; the layer flushes it, because the
 * application may not. */
static void test_other_queue(void **state) {
        cl_command_queue a = queue(0), b = queue(0);
        OpenclTracked t;
        cl_event safe, unsafe, user = cl->clCreateUserEvent(NULL, NULL), of_safe, of_unsafe;

        library.track = true;
        assert_int_equal(launch(a, 0, NULL, &safe), CL_SUCCESS);
        int flushes = sim.n.flushes;
        assert_int_equal(launch(b, 1, &safe, &of_safe), CL_SUCCESS);
        assert_true(sim.n.flushes > flushes);
        assert_true(opencl_record_find(opencl_queue_find(b), of_safe, &t));
        assert_true(t.safe);

        assert_int_equal(launch(a, 1, &user, &unsafe), CL_SUCCESS);
        assert_int_equal(launch(b, 1, &unsafe, &of_unsafe), CL_SUCCESS);
        assert_true(opencl_record_find(opencl_queue_find(b), of_unsafe, &t));
        assert_false(t.safe);
        assert_int_equal(cl->clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(cl->clFinish(a), CL_SUCCESS);
        assert_int_equal(cl->clFinish(b), CL_SUCCESS);
        cl_event all[] = {safe, unsafe, user, of_safe, of_unsafe};
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                assert_int_equal(cl->clReleaseEvent(all[i]), CL_SUCCESS);
        release(a);
        release(b);
}

/* A launch that only looks safe to wait for: after a second the waiting launch goes through, and the bound is
 * doubled. */
static void test_gives_up(void **state) {
        cl_command_queue q = queue(0);
        OpenclQueue *record = opencl_queue_find(q);

        library.track = true;
        library.limit = 1;
        launches(q, 2);
        assert_int_equal(atomic_load(&record->grace), 1);
        assert_int_equal(sim.n.enqueues, 2);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(atomic_load(&record->grace), 0);
        release(q);
}

/* Each doubling of the bound takes half of the time of the one before. */
static void test_gives_up_sooner(void **state) {
        cl_command_queue q = queue(0);
        uint64_t begun = now_ns();

        library.track = true;
        library.limit = 1;
        launches(q, 2);
        uint64_t first_ns = now_ns() - begun;
        launches(q, 14); /* at 2, 4 and 8 in flight */
        assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 4);
        assert_true(now_ns() - begun < first_ns * 5 / 2);
        finish(q);
        release(q);
}

static void CL_CALLBACK launch_from_callback(cl_event e, cl_int status, void *userdata) {
        launches(userdata, 10);
}

static void test_callback_never_waits(void **state) {
        cl_command_queue q = queue(0);
        cl_event e;

        library.track = true;
        library.limit = 1;
        assert_int_equal(launch(q, 0, NULL, &e), CL_SUCCESS);
        assert_int_equal(cl->clSetEventCallback(e, CL_COMPLETE, launch_from_callback, q), CL_SUCCESS);
        sim_complete_to(1);
        assert_int_equal(library.nowait, 10);
        assert_int_equal(library.launches, 11);
        assert_int_equal(atomic_load(&opencl_queue_find(q)->grace), 0);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        assert_int_equal(cl->clReleaseEvent(e), CL_SUCCESS);
        release(q);
}

/* However many launches are in flight, one launch in sixty-four looks for ended ones, also after the queue was at
 * rest. */
static void test_unbounded_looks(void **state) {
        cl_command_queue q = queue(0);

        library.track = true;
        for (int i = 0; i < 2; i++) {
                int before = sim.n.queries;

                launches(q, 1000);
                assert_in_range(sim.n.queries - before, 10, 40);
                finish(q);
        }
        assert_int_equal(library.completed, 2000);
        release(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_bound_waits),
                        T(test_user_event),
                        T(test_unwatched_user_event),
                        T(test_marker_and_native_kernel),
                        T(test_other_queue),
                        T(test_gives_up),
                        T(test_gives_up_sooner),
                        T(test_callback_never_waits),
                        T(test_unbounded_looks),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
