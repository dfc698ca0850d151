/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Programs as people write them for XSched: its examples 2, 3, 4 and 8, with each runtime (examples.h)
 *
 * examples hints PRIORITY | local [by-environment] | manual | submit | submit-locally. No example waits for a time to
 * pass: the launches so far show that it was scheduled. Results are checked. The program prints "ready", and goes on
 * when its input ends.
 */

#include <pthread.h>
#include <sched.h>

#include "examples.h"

static Stream one, two; /* low and high */

static void stream_make(Stream *s) {
        runtime_stream(s);
        CHECK(XQueueCreate(&s->xq, s->hwq, kPreemptLevelBlock, kQueueCreateFlagNone) == kXSchedSuccess);
        CHECK(XQueueSetLaunchConfig(s->xq, 8, 4) == kXSchedSuccess);
}

static void stream_end(Stream *s) {
        runtime_expect(s);
        CHECK(XQueueDestroy(s->xq) == kXSchedSuccess);
        CHECK(HwQueueDestroy(s->hwq) == kXSchedSuccess);
        runtime_stream_end(s);
}

static void stream_launch_as(Stream *s, bool occupy) {
        runtime_launch(s, occupy);
        s->n++;
        atomic_fetch_add(&s->launched, 1);
}

static void stream_launch(Stream *s) {
        stream_launch_as(s, false);
}

/* Checks that all of the program's own calls of the runtime were seen. */
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
        stream_launch(userdata);
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
        for (unsigned i = 0; i < LAUNCHES; i++)
                stream_launch(&one);
        runtime_finish(&one);
        if (runtime_has_gates)
                expect_count(&one, LAUNCHES);
        wait_for_input();
        stream_end(&one);
}

/* Example 3: the low queue does not run while the high one has work, also when that work waits for the host. */
static void schedule_locally(bool by_environment) {
        pthread_t thread;

        stream_make(&one);
        stream_make(&two);
        CHECK(XHintPriority(one.xq, 1) == kXSchedSuccess);
        CHECK(XHintPriority(two.xq, 2) == kXSchedSuccess);
        if (!by_environment)
                CHECK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst) == kXSchedSuccess);
        stream_launch_as(&two, true);
        /* When this call returns, the scheduler has acted on all earlier submissions. */
        CHECK(XHintPriority(two.xq, 3) == kXSchedSuccess);

        CHECK(pthread_create(&thread, NULL, launch_one, &one) == 0);
        await_count(&one, 1);
        wait_for_input();
        CHECK(atomic_load(&one.launched) == 0);
        runtime_release();
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(atomic_load(&one.launched) == 1);
        runtime_finish(&one);
        stream_end(&one);
        stream_end(&two);
}

/* Example 4: the program suspends one queue while the other works. */
static void schedule_by_hand(void) {
        pthread_t thread;

        stream_make(&one);
        stream_make(&two);
        CHECK(XQueueSuspend(one.xq, 0) == kXSchedSuccess);
        CHECK(pthread_create(&thread, NULL, launch_one, &one) == 0);
        await_count(&one, 1);
        for (unsigned i = 0; i < LAUNCHES; i++)
                stream_launch(&two);
        runtime_finish(&two);
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
        stream_launch(s);
        return kXSchedSuccess;
}

static void submit(Stream *s) {
        for (unsigned i = 0; i < LAUNCHES; i++) {
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
        runtime_expect(&two);
        CHECK(XQueueResume(one.xq, 0) == kXSchedSuccess);
        CHECK(XQueueWaitAll(one.xq) == kXSchedSuccess);
        CHECK(atomic_load(&one.launched) == LAUNCHES);
        CHECK(XQueueQuery(two.xq, &state) == kXSchedSuccess && state == kQueueStateIdle);
        stream_end(&one);
        stream_end(&two);
}

/* Examples 3 and 8: commands of the low one are not launched while one of the high one is. */
static atomic_bool may_go_on;

static XResult wait_and_launch(HwQueueHandle hwq, void *data) {
        while (!atomic_load(&may_go_on))
                (void) sched_yield();
        return callback(hwq, data);
}

static void schedule_commands_locally(void) {
        HwCommandHandle command;

        stream_make(&one);
        stream_make(&two);
        CHECK(XHintPriority(one.xq, 1) == kXSchedSuccess);
        CHECK(XHintPriority(two.xq, 2) == kXSchedSuccess);
        CHECK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst) == kXSchedSuccess);
        CHECK(HwCommandCreateCallback(&command, wait_and_launch, &two) == kXSchedSuccess);
        CHECK(XQueueSubmit(two.xq, command) == kXSchedSuccess);
        CHECK(XHintPriority(two.xq, 3) == kXSchedSuccess);
        submit(&one);
        CHECK(XHintPriority(one.xq, 2) == kXSchedSuccess);
        wait_for_input();
        CHECK(atomic_load(&one.launched) == 0);
        atomic_store(&may_go_on, true);
        CHECK(XQueueWait(two.xq, command) == kXSchedSuccess);
        CHECK(XQueueWaitAll(one.xq) == kXSchedSuccess);
        CHECK(atomic_load(&one.launched) == LAUNCHES && atomic_load(&two.launched) == 1);
        stream_end(&one);
        stream_end(&two);
}

int main(int argc, char *argv[]) {
        CHECK(argc >= 2);
        runtime_open();
        if (strcmp(argv[1], "hints") == 0)
                give_hints(atoi(argv[2]));
        else if (strcmp(argv[1], "local") == 0)
                schedule_locally(argc > 2);
        else if (strcmp(argv[1], "manual") == 0)
                schedule_by_hand();
        else if (strcmp(argv[1], "submit-locally") == 0)
                schedule_commands_locally();
        else
                schedule_commands();
        runtime_close();
        return 0;
}
