/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Programs as people write them against XSched: the ways of its examples 2, 3, 4 and 8, with OpenCL
 *
 * examples hints PRIORITY | local | manual | submit. Nothing here waits for a time to pass: each says by what has been
 * launched that it was scheduled. What is computed is checked. Prints "ready", and goes on when its input ends.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "../opencl/cl-test.h"

#include "xsched/xsched.h"

#include "xsched/opencl/hal.h"

#define LAUNCHES 20

typedef struct Stream {
        cl_command_queue queue;
        HwQueueHandle hwq;
        XQueueHandle xq;
        cl_mem buffer;
        cl_int expected;
        atomic_int launched; /* calls of the runtime that have returned */
} Stream;

static Stream one, two; /* low and high */

static void stream_make(Stream *s) {
        s->queue = queue_make(0);
        s->buffer = buffer_make();
        CHECK(OclQueueCreate(&s->hwq, s->queue) == kXSchedSuccess);
        CHECK(XQueueCreate(&s->xq, s->hwq, kPreemptLevelBlock, kQueueCreateFlagNone) == kXSchedSuccess);
        CHECK(XQueueSetLaunchConfig(s->xq, 8, 4) == kXSchedSuccess);
}

static void stream_end(Stream *s) {
        buffer_expect(s->queue, s->buffer, s->expected);
        CHECK(XQueueDestroy(s->xq) == kXSchedSuccess);
        CHECK(HwQueueDestroy(s->hwq) == kXSchedSuccess);
        CHECK_CL(clReleaseMemObject(s->buffer));
        CHECK_CL(clReleaseCommandQueue(s->queue));
}

static void stream_launch(Stream *s, cl_uint n_waits, const cl_event *waits) {
        CHECK_CL(launch_step(s->queue, s->buffer, 7, n_waits, waits, NULL));
        CHECK_CL(clFlush(s->queue));
        s->expected = step(s->expected, 7);
        atomic_fetch_add(&s->launched, 1);
}

/* By the program's own calls of the runtime: all of them were seen. */
static void expect_count(const Stream *s, int64_t n) {
        int64_t count = -1;

        CHECK(XQueueProfileHwCommandCount(s->xq, &count) == kXSchedSuccess);
        CHECK(count == n);
}

/* A launch has come as far as the gate. */
static void await_count(const Stream *s, int64_t n) {
        int64_t count = 0;

        while (count < n)
                CHECK(XQueueProfileHwCommandCount(s->xq, &count) == kXSchedSuccess);
}

static void *launch_one(void *userdata) {
        stream_launch(userdata, 0, NULL);
        return NULL;
}

static void wait_for_input(void) {
        char line[8];

        (void) puts("ready");
        (void) fflush(stdout);
        while (fgets(line, sizeof(line), stdin))
                ;
}

/* Example 2: hints. */
static void give_hints(int priority) {
        stream_make(&one);
        CHECK(XHintPriority(one.xq, priority) == kXSchedSuccess);
        for (int i = 0; i < LAUNCHES; i++)
                stream_launch(&one, 0, NULL);
        CHECK_CL(clFinish(one.queue));
        expect_count(&one, LAUNCHES);
        wait_for_input();
        stream_end(&one);
}

/* Example 3: the low one does not run while the high one has something to do, be it that it waits for the host. */
static void schedule_locally(bool by_environment) {
        pthread_t thread;
        cl_int r;

        stream_make(&one);
        stream_make(&two);
        CHECK(XHintPriority(one.xq, 1) == kXSchedSuccess);
        CHECK(XHintPriority(two.xq, 2) == kXSchedSuccess);
        if (!by_environment)
                CHECK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst) == kXSchedSuccess);
        cl_event host = clCreateUserEvent(t.context, &r);
        CHECK_CL(r);
        stream_launch(&two, 1, &host);
        /* What the scheduler has heard of so far it has acted on when this returns. */
        CHECK(XHintPriority(two.xq, 3) == kXSchedSuccess);

        CHECK(pthread_create(&thread, NULL, launch_one, &one) == 0);
        await_count(&one, 1);
        wait_for_input();
        CHECK(atomic_load(&one.launched) == 0);
        CHECK_CL(clSetUserEventStatus(host, CL_COMPLETE));
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(atomic_load(&one.launched) == 1);
        CHECK_CL(clFinish(one.queue));
        CHECK_CL(clReleaseEvent(host));
        stream_end(&one);
        stream_end(&two);
}

/* Example 4: the program suspends the one for the time of the other. */
static void schedule_by_hand(void) {
        pthread_t thread;

        stream_make(&one);
        stream_make(&two);
        CHECK(XQueueSuspend(one.xq, 0) == kXSchedSuccess);
        CHECK(pthread_create(&thread, NULL, launch_one, &one) == 0);
        await_count(&one, 1);
        for (int i = 0; i < LAUNCHES; i++)
                stream_launch(&two, 0, NULL);
        CHECK_CL(clFinish(two.queue));
        wait_for_input();
        CHECK(atomic_load(&one.launched) == 0);
        CHECK(XQueueResume(one.xq, 0) == kXSchedSuccess);
        CHECK(pthread_join(thread, NULL) == 0);
        stream_end(&one);
        stream_end(&two);
}

/* Example 8: commands. */
static XResult callback(HwQueueHandle hwq, void *data) {
        Stream *s = data;

        if (hwq != s->hwq)
                return kXSchedErrorInvalidValue;
        stream_launch(s, 0, NULL);
        return kXSchedSuccess;
}

static void submit(Stream *s) {
        for (int i = 0; i < LAUNCHES; i++) {
                HwCommandHandle command;
                CHECK(HwCommandCreateCallback(&command, callback, s) == kXSchedSuccess);
                CHECK(XQueueSubmit(s->xq, command) == kXSchedSuccess);
        }
}

static void schedule_commands(void) {
        XQueueState state;

        stream_make(&one);
        stream_make(&two);
        CHECK(XQueueSuspend(one.xq, 0) == kXSchedSuccess);
        submit(&one);
        submit(&two);
        CHECK(XQueueWaitAll(two.xq) == kXSchedSuccess);
        wait_for_input();
        CHECK(atomic_load(&one.launched) == 0 && atomic_load(&two.launched) == LAUNCHES);
        buffer_expect(two.queue, two.buffer, two.expected);
        CHECK(XQueueResume(one.xq, 0) == kXSchedSuccess);
        CHECK(XQueueWaitAll(one.xq) == kXSchedSuccess);
        CHECK(atomic_load(&one.launched) == LAUNCHES);
        CHECK(XQueueQuery(two.xq, &state) == kXSchedSuccess && state == kQueueStateIdle);
        stream_end(&one);
        stream_end(&two);
}

int main(int argc, char *argv[]) {
        CHECK(argc >= 2);
        test_open();
        if (strcmp(argv[1], "hints") == 0)
                give_hints(atoi(argv[2]));
        else if (strcmp(argv[1], "local") == 0)
                schedule_locally(argc > 2);
        else if (strcmp(argv[1], "manual") == 0)
                schedule_by_hand();
        else
                schedule_commands();
        test_close();
        return 0;
}
