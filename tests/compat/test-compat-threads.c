/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Everything that may be done to XQueues, by several threads at once: what was submitted is launched once, in its order
 */

#include <stdatomic.h>

#include "compat-fixture.h"
#include "include/xsched/xsched.h"

#define STRESS_QUEUES   4U
#define STRESS_COMMANDS 300U

typedef struct Counted {
        Queue q;
        unsigned n;
        bool wrong;
} Counted;

typedef struct Numbered {
        Counted *of;
        unsigned number;
} Numbered;

static XResult count(HwQueueHandle hwq, void *data) {
        const Numbered *n = data;

        n->of->wrong |= n->of->n != n->number || hwq != n->of->q.hwq;
        n->of->n++;
        return kXSchedSuccess;
}

static atomic_bool stress_ends;

static void *submitter(void *userdata) {
        static Numbered numbers[STRESS_QUEUES][STRESS_COMMANDS];
        static atomic_uint next;
        Numbered *mine = numbers[next++];
        Counted *c = userdata;

        for (unsigned i = 0; i < STRESS_COMMANDS; i++) {
                mine[i] = (Numbered){c, i};
                HwCommandHandle h = submit_call(&c->q, count, mine + i);
                if (i % 50 == 0)
                        (void) XQueueWait(c->q.xq, h);
        }
        return NULL;
}

/* Everything that may be done to a queue at any time. */
static void *meddler(void *userdata) {
        Counted *all = userdata;

        for (unsigned i = 0; !stress_ends; i++) {
                const Queue *q = &all[i % STRESS_QUEUES].q;

                XQueueState s;
                int64_t n;

                (void) XQueueSuspend(q->xq, 0);
                (void) XQueueSuspend(q->xq, kQueueSuspendFlagSyncHwQueue);
                (void) XHintSetScheduler(1 + i % 3, 1 + i % 11);
                (void) XHintPriority(q->xq, (Priority) (i % 10));
                (void) XQueueSetLaunchConfig(q->xq, 1 + i % 8, 1);
                (void) XQueueQuery(q->xq, &s);
                (void) XQueueProfileHwCommandCount(q->xq, &n);
                (void) XQueueResume(q->xq, 0);
                (void) XQueueSuspend(q->xq, 1 << i % 3); /* in flight, all, idle */
                (void) XQueueResume(q->xq, 0);
        }
        return NULL;
}

static _Atomic XResult not_made;

/* XQueues come and go on one address, for which a layer has a queue, while other threads use the handles that they
 * find. */
static void *maker(void *userdata) {
        static _Atomic XQueueHandle last;
        const char *address = userdata;

        while (!stress_ends) {
                HwQueueHandle hwq = fake_queue(address, "one");
                XQueueHandle x = 0;
                HwCommandHandle c;

                XResult r = XQueueCreate(&x, hwq, kPreemptLevelBlock, 0);
                if (r == kXSchedSuccess)
                        last = x;
                else if (r != kXSchedErrorNotFound) /* another thread has destroyed the queue */
                        not_made = r;
                if (HwCommandCreateCallback(&c, fake_launch, NULL) == kXSchedSuccess &&
                                XQueueSubmit(last, c) != kXSchedSuccess)
                        (void) HwCommandDestroy(c);
                (void) XQueueSuspend(last, kQueueSuspendFlagWaitIdle);
                (void) XQueueDestroy(last);
                (void) HwQueueDestroy(hwq);
        }
        return NULL;
}

#define STRESS_OTHERS 4U

static void test_threads(void **state) {
        static Counted counted[STRESS_QUEUES];
        pthread_t submitters[STRESS_QUEUES], others[STRESS_OTHERS];
        XschedQueue *layers = NULL;
        char address;

        const XschedQueueInfo info = {
                        .size = sizeof(info), .device = "one", .backend = "fake", .native = (uintptr_t) &address};
        assert_int_equal(xsched_queue_new(&info, &layers), 0);
        for (size_t i = 0; i < STRESS_QUEUES; i++)
                make_on(&counted[i].q, i % 2 ? "one" : "two");
        for (size_t i = 0; i < STRESS_OTHERS; i++)
                assert_int_equal(pthread_create(others + i, NULL, i % 2 ? meddler : maker,
                                                 i % 2 ? (void *) counted : &address),
                                0);
        for (size_t i = 0; i < STRESS_QUEUES; i++)
                assert_int_equal(pthread_create(submitters + i, NULL, submitter, counted + i), 0);
        for (size_t i = 0; i < STRESS_QUEUES; i++)
                assert_int_equal(pthread_join(submitters[i], NULL), 0);
        stress_ends = true;
        for (size_t i = 0; i < STRESS_OTHERS; i++)
                assert_int_equal(pthread_join(others[i], NULL), 0);
        assert_int_equal(not_made, kXSchedSuccess);
        for (size_t i = 0; i < STRESS_QUEUES; i++) {
                settle(&counted[i].q);
                assert_int_equal(counted[i].n, STRESS_COMMANDS);
                assert_false(counted[i].wrong);
                end(&counted[i].q);
        }
        (void) xsched_queue_unref(layers);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
