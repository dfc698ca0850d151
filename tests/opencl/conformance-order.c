/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Conformance: the order of commands
 */

#include <pthread.h>
#include <stdatomic.h>

#include "conformance.h"

static void in_order(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int expected = 0;

        for (cl_int k = 0; k < 500; k++) {
                CHECK_CL(launch_step(q, a, k, 0, NULL, NULL));
                expected = step(expected, k);
        }
        CHECK_CL(clFinish(q));
        buffer_expect(q, a, expected);
        printf("%d\n", expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void launch_and_finish(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int expected = 0;

        for (cl_int k = 0; k < 200; k++) {
                cl_event e;
                CHECK_CL(launch_step(q, a, k, 0, NULL, k % 3 == 0 ? &e : NULL));
                if (k % 3 == 0) {
                        CHECK_CL(clWaitForEvents(1, &e));
                        CHECK(event_status(e) == CL_COMPLETE);
                        CHECK_CL(clReleaseEvent(e));
                } else
                        CHECK_CL(clFinish(q));
                expected = step(expected, k);
        }
        buffer_expect(q, a, expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

/* Four chains of events on one out-of-order queue, woven into each other, then joined. */
static void out_of_order(void) {
        enum { CHAINS = 4, LINKS = 40 };
        cl_command_queue q = queue_make(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        cl_mem a[CHAINS];
        cl_event last[CHAINS] = {};
        cl_int expected[CHAINS] = {}, sum = 0;

        for (size_t c = 0; c < CHAINS; c++)
                a[c] = buffer_make();
        for (cl_int k = 0; k < LINKS; k++)
                for (size_t c = 0; c < CHAINS; c++) {
                        cl_event e;
                        CHECK_CL(launch_step(q, a[c], k + (cl_int) c, last[c] ? 1 : 0, last[c] ? &last[c] : NULL, &e));
                        if (last[c])
                                CHECK_CL(clReleaseEvent(last[c]));
                        last[c] = e;
                        expected[c] = step(expected[c], k + (cl_int) c);
                }
        CHECK_CL(clEnqueueBarrierWithWaitList(q, 0, NULL, NULL));
        for (size_t c = 1; c < CHAINS; c++) {
                CHECK_CL(launch_add(q, a[0], a[c], 0, NULL, NULL));
                CHECK_CL(clEnqueueBarrier(q));
        }
        CHECK_CL(clFinish(q));
        for (size_t c = 0; c < CHAINS; c++)
                sum += expected[c];
        buffer_expect(q, a[0], sum);
        printf("%d\n", sum);
        for (size_t c = 0; c < CHAINS; c++) {
                CHECK(event_status(last[c]) == CL_COMPLETE);
                CHECK_CL(clReleaseEvent(last[c]));
                CHECK_CL(clReleaseMemObject(a[c]));
        }
        CHECK_CL(clReleaseCommandQueue(q));
}

/* Two queues that take turns on one buffer; nothing is flushed before the end. */
static void across_queues(void) {
        cl_command_queue q[2] = {queue_make(0), queue_make(0)};
        cl_mem a = buffer_make();
        cl_event last = NULL;
        cl_int expected = 0;

        for (cl_int k = 0; k < 100; k++) {
                cl_event e;
                CHECK_CL(launch_step(q[k % 2], a, k, last ? 1 : 0, last ? &last : NULL, &e));
                if (last)
                        CHECK_CL(clReleaseEvent(last));
                last = e;
                expected = step(expected, k);
        }
        CHECK_CL(clFlush(q[0]));
        CHECK_CL(clFlush(q[1]));
        CHECK_CL(clWaitForEvents(1, &last));
        CHECK_CL(clReleaseEvent(last));
        buffer_expect(q[0], a, expected);
        printf("%d\n", expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q[0]));
        CHECK_CL(clReleaseCommandQueue(q[1]));
}

/* Many launches on q[1] wait for one on q[0] that is not even flushed before all of them are in. */
static void unflushed_dependency(void) {
        cl_command_queue q[2] = {queue_make(0), queue_make(0)};
        cl_mem a = buffer_make();
        cl_int expected = step(0, 7);
        cl_event first;

        CHECK_CL(launch_step(q[0], a, 7, 0, NULL, &first));
        for (cl_int k = 0; k < 100; k++) {
                CHECK_CL(launch_step(q[1], a, k, 1, &first, NULL));
                expected = step(expected, k);
        }
        CHECK_CL(clFlush(q[0]));
        CHECK_CL(clFinish(q[1]));
        CHECK_CL(clReleaseEvent(first));
        buffer_expect(q[1], a, expected);
        printf("%d\n", expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q[0]));
        CHECK_CL(clReleaseCommandQueue(q[1]));
}

/* No command may start before the last launch was made. `how` 0: the launch's own list; 1: a barrier.
 * (clEnqueueWaitForEvents() is not among them: PoCL has not implemented it, and aborts.) */
static void user_event_on(cl_command_queue q, int how) {
        cl_int r, expected = 0, k = 0;
        cl_event user = clCreateUserEvent(t.context, &r), last = NULL;
        cl_mem a = buffer_make();
        CHECK_CL(r);

        if (how == 1)
                CHECK_CL(clEnqueueBarrierWithWaitList(q, 1, &user, NULL));
        for (; k < 100; k++) {
                const cl_event *waits = how == 0 && k == 0 ? &user : last ? &last : NULL;
                cl_event e;
                CHECK_CL(launch_step(q, a, k, waits ? 1 : 0, waits, &e));
                if (last)
                        CHECK_CL(clReleaseEvent(last));
                last = e;
                expected = step(expected, k);
        }
        CHECK_CL(clFlush(q));
        CHECK(event_status(last) > CL_COMPLETE);
        CHECK_CL(clSetUserEventStatus(user, CL_COMPLETE));
        CHECK_CL(clWaitForEvents(1, &last));
        CHECK_CL(clFinish(q));
        buffer_expect(q, a, expected);
        CHECK_CL(clReleaseEvent(last));
        CHECK_CL(clReleaseEvent(user));
        CHECK_CL(clReleaseMemObject(a));
}

static void user_event(void) {
        for (int how = 0; how < 2; how++) {
                cl_command_queue q[2] = {queue_make(0), queue_make(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)};
                for (size_t i = 0; i < 2; i++) {
                        user_event_on(q[i], how);
                        CHECK_CL(clReleaseCommandQueue(q[i]));
                }
        }
}

/* A second queue waits for the first, which waits for a user event; and the launches that follow on the second. */
static void user_event_behind_queue(void) {
        cl_command_queue q[2] = {queue_make(0), queue_make(0)};
        cl_mem a = buffer_make();
        cl_int r, expected = step(0, 5);
        cl_event user = clCreateUserEvent(t.context, &r), first;
        CHECK_CL(r);

        CHECK_CL(launch_step(q[0], a, 5, 1, &user, &first));
        CHECK_CL(clEnqueueMarkerWithWaitList(q[1], 1, &first, NULL));
        for (cl_int k = 0; k < 50; k++) {
                CHECK_CL(launch_step(q[1], a, k, 0, NULL, NULL));
                expected = step(expected, k);
        }
        CHECK_CL(clFlush(q[0]));
        CHECK_CL(clFlush(q[1]));
        CHECK_CL(clSetUserEventStatus(user, CL_COMPLETE));
        CHECK_CL(clFinish(q[1]));
        buffer_expect(q[1], a, expected);
        CHECK_CL(clReleaseEvent(first));
        CHECK_CL(clReleaseEvent(user));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q[0]));
        CHECK_CL(clReleaseCommandQueue(q[1]));
}

/* A command that depends on a failed user event fails. */
static void failed_dependency(void) {
        cl_command_queue q = queue_make(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        cl_mem a = buffer_make();
        cl_int r;
        cl_event user = clCreateUserEvent(t.context, &r), e;
        CHECK_CL(r);

        CHECK_CL(launch_step(q, a, 1, 1, &user, &e));
        CHECK_CL(clFlush(q));
        CHECK_CL(clSetUserEventStatus(user, -42));
        printf("wait %d\n", clWaitForEvents(1, &e));
        printf("negative %d\n", event_status(e) < 0);
        CHECK_CL(clReleaseEvent(e));
        CHECK_CL(clReleaseEvent(user));
        CHECK_CL(clFinish(q));
        buffer_expect(q, a, 0);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

/* --- callbacks --- */

typedef struct Relay {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        cl_command_queue queue;
        cl_mem a;
        int left, calls, statuses;
} Relay;

static void CL_CALLBACK count_call(cl_event event, cl_int status, void *userdata) {
        Relay *r = userdata;
        (void) pthread_mutex_lock(&r->lock);
        r->calls++;
        r->statuses += status;
        (void) pthread_cond_broadcast(&r->changed);
        (void) pthread_mutex_unlock(&r->lock);
}

static void callbacks(void) {
        Relay r = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .queue = queue_make(0)};
        r.a = buffer_make();

        for (cl_int k = 0; k < 50; k++) {
                cl_event e;
                CHECK_CL(launch_step(r.queue, r.a, k, 0, NULL, &e));
                CHECK_CL(clSetEventCallback(e, CL_COMPLETE, count_call, &r));
                CHECK_CL(clReleaseEvent(e));
        }
        CHECK_CL(clFlush(r.queue));
        (void) pthread_mutex_lock(&r.lock);
        while (r.calls < 50)
                (void) pthread_cond_wait(&r.changed, &r.lock);
        (void) pthread_mutex_unlock(&r.lock);
        printf("%d calls, statuses %d\n", r.calls, r.statuses);
        CHECK_CL(clFinish(r.queue));
        CHECK_CL(clReleaseMemObject(r.a));
        CHECK_CL(clReleaseCommandQueue(r.queue));
}

/* Each completion enqueues the next launch, from the runtime's own thread. */
static void CL_CALLBACK relay(cl_event event, cl_int status, void *userdata) {
        Relay *r = userdata;
        cl_event next = NULL;

        CHECK(status == CL_COMPLETE);
        CHECK_CL(clReleaseEvent(event));
        (void) pthread_mutex_lock(&r->lock);
        int left = --r->left;
        (void) pthread_cond_broadcast(&r->changed);
        (void) pthread_mutex_unlock(&r->lock);
        if (left <= 0)
                return;
        CHECK_CL(launch_step(r->queue, r->a, left, 0, NULL, &next));
        /* This comes last: the callback may come at once, and with the last callback the queue is released. */
        CHECK_CL(clFlush(r->queue));
        CHECK_CL(clSetEventCallback(next, CL_COMPLETE, relay, r));
}

static void callbacks_that_enqueue(void) {
        Relay r = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .queue = queue_make(0),
                        .left = 60};
        cl_int expected = step(0, 60);
        cl_event e;
        r.a = buffer_make();

        CHECK_CL(launch_step(r.queue, r.a, 60, 0, NULL, &e));
        CHECK_CL(clSetEventCallback(e, CL_COMPLETE, relay, &r));
        CHECK_CL(clFlush(r.queue));
        (void) pthread_mutex_lock(&r.lock);
        while (r.left > 0)
                (void) pthread_cond_wait(&r.changed, &r.lock);
        (void) pthread_mutex_unlock(&r.lock);
        for (cl_int k = 59; k > 0; k--)
                expected = step(expected, k);
        CHECK_CL(clFinish(r.queue));
        buffer_expect(r.queue, r.a, expected);
        CHECK_CL(clReleaseMemObject(r.a));
        CHECK_CL(clReleaseCommandQueue(r.queue));
}

/* --- threads --- */

typedef struct Worker {
        pthread_t thread;
        cl_command_queue queue;
        cl_mem a;
        int n;
} Worker;

static void *work(void *userdata) {
        Worker *w = userdata;
        for (int k = 0; k < w->n; k++) {
                CHECK_CL(launch_step(w->queue, w->a, k, 0, NULL, NULL));
                if (k % 16 == 15)
                        CHECK_CL(k % 32 == 31 ? clFinish(w->queue) : clFlush(w->queue));
        }
        CHECK_CL(clFinish(w->queue));
        return NULL;
}

static void threads_with(cl_command_queue shared) {
        enum { WORKERS = 6, LAUNCHES = 80 };
        Worker w[WORKERS];
        cl_int expected = 0;

        for (size_t i = 0; i < WORKERS; i++) {
                w[i] = (Worker){.queue = shared ?: queue_make(0), .n = LAUNCHES};
                w[i].a = buffer_make();
                CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
        }
        for (cl_int k = 0; k < LAUNCHES; k++)
                expected = step(expected, k);
        for (size_t i = 0; i < WORKERS; i++) {
                CHECK(pthread_join(w[i].thread, NULL) == 0);
                buffer_expect(w[i].queue, w[i].a, expected);
                CHECK_CL(clReleaseMemObject(w[i].a));
                if (!shared)
                        CHECK_CL(clReleaseCommandQueue(w[i].queue));
        }
        printf("%d\n", expected);
}

static void threads(void) {
        threads_with(NULL);
}

static void threads_on_one_queue(void) {
        cl_command_queue q = queue_make(0);
        threads_with(q);
        CHECK_CL(clReleaseCommandQueue(q));
}

/* A queue that is given up with work in it finishes that work. */
static void release_with_work(void) {
        cl_int expected = 0;
        cl_mem a = buffer_make();
        cl_event last = NULL;

        for (cl_int k = 0; k < 40; k++) {
                cl_command_queue q = queue_make(0);
                cl_event e;
                CHECK_CL(launch_step(q, a, k, last ? 1 : 0, last ? &last : NULL, &e));
                CHECK_CL(clRetainCommandQueue(q));
                CHECK_CL(clReleaseCommandQueue(q));
                CHECK_CL(clReleaseCommandQueue(q));
                if (last)
                        CHECK_CL(clReleaseEvent(last));
                last = e;
                expected = step(expected, k);
        }
        CHECK_CL(clWaitForEvents(1, &last));
        CHECK_CL(clReleaseEvent(last));
        cl_command_queue q = queue_make(0);
        buffer_expect(q, a, expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

/* Longer kernels, so that launches really are in flight together. */
static void pipeline(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int expected = 0;

        for (int i = 0; i < 60; i++) {
                CHECK_CL(launch_busy(q, a, 2000, NULL));
                for (cl_int k = 0; k < 2000; k++)
                        expected = step(expected, k);
        }
        buffer_expect(q, a, expected);
        printf("%d\n", expected);
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

const Case order_cases[] = {
                {"in-order", in_order},
                {"launch-and-finish", launch_and_finish},
                {"pipeline", pipeline},
                {"out-of-order", out_of_order},
                {"across-queues", across_queues},
                {"unflushed-dependency", unflushed_dependency},
                {"user-event", user_event},
                {"user-event-behind-queue", user_event_behind_queue},
                {"failed-dependency", failed_dependency},
                {"callbacks", callbacks},
                {"callbacks-that-enqueue", callbacks_that_enqueue},
                {"threads", threads},
                {"threads-on-one-queue", threads_on_one_queue},
                {"release-with-work", release_with_work},
                {},
};
