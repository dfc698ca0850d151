/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched-compat over a runtime that the test plays, without a service
 */

#include <sys/wait.h>
#include <unistd.h>

#include "compat-fixture.h"
#include "include/xsched-compat/xsched/opencl/hal.h"

static void assert_launches(size_t from, const char *const *data, size_t n) {
        for (size_t i = 0; i < n; i++)
                assert_ptr_equal(fake_launched(from + i), data[i]);
}

static int setup(void **state) {
        fake_forget();
        return 0;
}

static int teardown(void **state) {
        fake_hold(false);
        assert_ok(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
        return 0;
}

static void test_buffers(void **state) {
        Queue a, b;
        char data[8];
        XQueueState s;
        int64_t n;

        make(&a);
        make(&b);
        assert_ok(XQueueQuery(a.xq, &s));
        assert_int_equal(s, kQueueStateIdle);
        assert_ok(XQueueSuspend(a.xq, 0));
        assert_ok(XQueueSuspend(a.xq, 0)); /* it does not count */
        for (size_t i = 0; i < 5; i++)
                submit(&a, data + i);
        submit(&b, data + 5);
        settle(&b);
        assert_int_equal(fake_n_launched(), 1);
        assert_ok(XQueueQuery(a.xq, &s));
        assert_int_equal(s, kQueueStateReady);

        assert_ok(XQueueResume(a.xq, 0));
        settle(&a);
        assert_launches(2, (const char *[]){data, data + 1, data + 2, data + 3, data + 4}, 5);
        assert_ok(XQueueQuery(a.xq, &s));
        assert_int_equal(s, kQueueStateIdle);
        assert_ok(XQueueProfileHwCommandCount(a.xq, &n));
        assert_int_equal(n, 5);

        /* Dropped commands are not launched, and no thread waits for them. */
        assert_ok(XQueueSuspend(a.xq, kQueueSuspendFlagWaitIdle));
        HwCommandHandle dropped = submit(&a, data + 6);
        assert_ok(XQueueResume(a.xq, kQueueResumeFlagDropCommands));
        assert_ok(XQueueWait(a.xq, dropped));
        settle(&a);
        submit(&a, data + 7);
        settle(&a);
        assert_ptr_equal(fake_launched(7), data + 7);
        assert_int_equal(fake_n_launched(), 7);
        end(&a);
        end(&b);
}

static void test_bound(void **state) {
        Queue q;
        char data[5];

        make(&q);
        assert_ok(XQueueSetLaunchConfig(q.xq, 2, 1));
        fake_forget();
        fake_hold(true);
        assert_ok(XQueueSuspend(q.xq, 0)); /* until there is more than fits */
        for (size_t i = 0; i < 5; i++)
                submit(&q, data + i);
        assert_ok(XQueueResume(q.xq, 0));
        fake_await_finish(1);
        assert_int_equal(fake_n_launched(), 2);

        /* An XQueue that is suspended with commands in flight completes these, and launches no more. */
        assert_ok(XQueueSuspend(q.xq, 0));
        fake_hold(false);
        assert_ok(HwQueueSynchronize(q.hwq));
        assert_int_equal(fake_n_launched(), 2);
        assert_ok(XQueueResume(q.xq, 0));
        settle(&q);
        assert_int_equal(fake_n_launched(), 5);
        end(&q);
}

static XResult refuse(HwQueueHandle hwq, void *data) {
        return kXSchedErrorInvalidValue;
}

static void test_results(void **state) {
        Queue q;
        char data[2];
        HwCommandHandle c;

        make(&q);
        HwCommandHandle good = submit(&q, data), bad = submit_call(&q, refuse, NULL);
        assert_int_equal(XQueueWaitAll(q.xq), kXSchedErrorInvalidValue);
        assert_ok(XQueueWaitAll(q.xq)); /* it has been told */
        assert_ok(XQueueWait(q.xq, good));
        assert_int_equal(XQueueWait(q.xq, bad), kXSchedErrorInvalidValue);

        assert_ok(HwCommandCreateCallback(&c, refuse, NULL));
        assert_int_equal(HwQueueLaunch(q.hwq, c), kXSchedErrorInvalidValue);
        assert_int_equal(HwQueueLaunch(q.hwq, c), kXSchedErrorNotFound);
        end(&q);
}

/* --- the local scheduler --- */

static void lcl(XPolicyType policy) {
        assert_ok(XHintSetScheduler(kSchedulerLocal, policy));
}

static void test_priority(void **state) {
        Queue low, high;
        char l[3], h[2];

        make(&low);
        make(&high);
        assert_ok(XQueueSetLaunchConfig(low.xq, 1, 1));
        assert_ok(XQueueSetLaunchConfig(high.xq, 1, 1));
        assert_ok(XHintPriority(high.xq, 2));
        assert_ok(XHintPriority(low.xq, 1));
        lcl(kPolicyHighestPriorityFirst);

        fake_forget();
        fake_hold(true);
        for (size_t i = 0; i < 3; i++)
                submit(&low, l + i);
        assert_ptr_equal(fake_launched(1), l);
        submit(&high, h);
        submit(&high, h + 1);
        assert_ptr_equal(fake_launched(2), h);
        look(&low);
        fake_hold(false);
        settle(&low);
        assert_launches(3, (const char *[]){h + 1, l + 1, l + 2}, 3);

        /* Hints outlive a change of the scheduler; and an XQueue that one scheduler held is not held by the next. */
        for (XPolicyType p = kPolicyHighestPriorityFirst; p < kPolicyMax; p++) {
                XResult r = XHintSetScheduler(kSchedulerLocal, p);
                assert_int_equal(r,
                                p == kPolicyStrictProcessUtilizationPartition ? kXSchedErrorNotSupported
                                                                              : kXSchedSuccess);
                submit(&low, l);
                submit(&high, h);
                settle(&low);
                settle(&high);
        }
        lcl(kPolicyHighestPriorityFirst);
        fake_forget();
        fake_hold(true);
        submit(&high, h);
        assert_ptr_equal(fake_launched(1), h);
        look(&high);
        submit(&low, l);
        fake_await_finish(1);
        assert_int_equal(fake_n_launched(), 1);
        assert_ok(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
        assert_ptr_equal(fake_launched(2), l);
        fake_hold(false);
        end(&low);
        end(&high);
}

static void test_devices(void **state) {
        Queue here, there;
        char data[3];

        /* Each device by itself, but under HHPF. */
        for (XPolicyType p = kPolicyHighestPriorityFirst; p <= kPolicyHeterogeneousHighestPriorityFirst; p++) {
                make_on(&here, "here");
                make_on(&there, "there");
                assert_ok(XHintPriority(here.xq, 5));
                lcl(p);
                fake_forget();
                fake_hold(true);
                submit(&here, data);
                assert_ptr_equal(fake_launched(1), data);
                look(&here);
                submit(&there, data + 1);
                if (p == kPolicyHighestPriorityFirst)
                        assert_ptr_equal(fake_launched(2), data + 1);
                else {
                        fake_await_finish(1);
                        assert_int_equal(fake_n_launched(), 1);
                }
                fake_hold(false);
                settle(&there);
                end(&here);
                end(&there);
        }
}

static void test_no_execute(void **state) {
        Queue q, other;
        char data[2];

        make(&q);
        make(&other);
        lcl(kPolicyHighestPriorityFirst);
        assert_ok(XHintPriority(q.xq, PRIORITY_NO_EXECUTE));
        submit(&q, data);
        submit(&other, data + 1);
        settle(&other);
        assert_int_equal(fake_n_launched(), 1);
        assert_ok(XHintPriority(q.xq, PRIORITY_MIN));
        settle(&q);
        assert_int_equal(fake_n_launched(), 2);

        /* An XQueue that may not run can be destroyed. */
        assert_ok(XHintPriority(q.xq, PRIORITY_NO_EXECUTE));
        submit(&q, data);
        end(&q);
        assert_int_equal(fake_n_launched(), 3);
        end(&other);
}

static void test_deadlines(void **state) {
        Queue busy, late, soon;
        char data[4];

        make(&busy);
        make(&late);
        make(&soon);
        assert_ok(XHintDeadline(late.xq, 10000000));
        assert_ok(XHintDeadline(soon.xq, 1000));
        assert_ok(XHintKDeadline(1));
        lcl(kPolicyKEarliestDeadlineFirst);
        assert_ok(XQueueSuspend(late.xq, 0));
        assert_ok(XQueueSuspend(soon.xq, 0));
        fake_forget();
        fake_hold(true);
        submit(&busy, data);
        assert_ptr_equal(fake_launched(1), data);
        submit(&soon, data + 1);
        submit(&late, data + 2);
        assert_ok(XQueueResume(late.xq, 0));
        assert_ptr_equal(fake_launched(2), data + 2);
        fake_await_finish(2); /* its thread waits, and launches no more before that is over */
        submit(&late, data + 3);
        assert_ok(XQueueResume(soon.xq, 0));
        assert_ptr_equal(fake_launched(3), data + 1);
        fake_hold(false);
        settle(&late);
        end(&busy);
        end(&late);
        end(&soon);
}

typedef struct Wait {
        const Queue *on;
        HwCommandHandle command;
        XResult result;
} Wait;

static XResult wait_for_other(HwQueueHandle hwq, void *data) {
        Wait *w = data;

        w->result = XQueueWait(w->on->xq, w->command);
        return kXSchedSuccess;
}

/* The middle XQueue always has work. The highest waits for a command of the lowest, or of another one that waits for
 * the lowest. */
static void test_inheritance(void **state) {
        Queue low, middle, high, between;
        char data[3];

        make(&low);
        make(&middle);
        make(&high);
        make(&between);
        assert_ok(XHintPriority(low.xq, -10));
        assert_ok(XHintPriority(between.xq, -5));
        assert_ok(XHintPriority(high.xq, 10));
        lcl(kPolicyHighestPriorityFirst);
        fake_forget();
        assert_ok(XQueueSetLaunchConfig(middle.xq, 1, 1));
        fake_hold(true);
        submit(&middle, data);
        submit(&middle, data + 1);
        assert_ptr_equal(fake_launched(1), data);
        look(&middle);

        Wait inner = {.on = &low, .command = submit(&low, data + 2), .result = kXSchedErrorUnknown};
        Wait outer = {.on = &between, .result = kXSchedErrorUnknown};
        outer.command = submit_call(&between, wait_for_other, &inner);
        HwCommandHandle top = submit_call(&high, wait_for_other, &outer);
        assert_ptr_equal(fake_launched(2), data + 2);
        fake_hold(false);
        assert_ok(XQueueWait(high.xq, top));
        assert_ok(outer.result);
        assert_ok(inner.result);
        settle(&middle);
        end(&low);
        end(&middle);
        end(&high);
        end(&between);
}

/* --- misuse --- */

static XResult wait_for_self(HwQueueHandle hwq, void *data) {
        const Queue *q = data;

        assert_int_equal(XQueueWaitAll(q->xq), kXSchedErrorNotAllowed);
        assert_int_equal(XQueueDestroy(q->xq), kXSchedErrorNotAllowed);
        assert_int_equal(XQueueSuspend(q->xq, kQueueSuspendFlagWaitIdle), kXSchedErrorNotAllowed);
        assert_ok(XQueueSuspend(q->xq, 0));
        assert_ok(XQueueResume(q->xq, 0));
        return kXSchedSuccess;
}

static void test_misuse(void **state) {
        Queue q, other;
        HwCommandHandle c;
        HwQueueHandle h;
        XQueueHandle x = 0;
        XQueueState s;
        int64_t n;
        char data;

        make(&q);
        make(&other);
        assert_int_equal(fake_queue(&data, "broken"), 0);
        assert_int_equal(OclQueueCreate(NULL, NULL), kXSchedErrorInvalidValue);
        assert_int_equal(OclQueueCreate(&h, NULL), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueCreate(NULL, q.hwq, kPreemptLevelBlock, 0), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueCreate(&x, q.hwq, kPreemptLevelUnknown, 0), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueCreate(&x, q.hwq, kPreemptLevelMax, 0), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueCreate(&x, q.hwq, 1, kQueueCreateFlagBlockingSubmit), kXSchedErrorNotSupported);
        assert_int_equal(XQueueCreate(&x, 12345, kPreemptLevelBlock, 0), kXSchedErrorNotFound);
        assert_int_equal(x, 0);
        assert_ok(XQueueCreate(&x, q.hwq, kPreemptLevelBlock, 0)); /* the one that it has */
        assert_int_equal(x, q.xq);
        assert_ok(XQueueGet(&x, other.hwq));
        assert_int_equal(x, other.xq);
        assert_int_equal(XQueueGet(&x, 12345), kXSchedErrorNotFound);
        assert_int_equal(XQueueGet(NULL, q.hwq), kXSchedErrorInvalidValue);

        const XQueueHandle none[] = {0, UINT64_MAX, 123456789};
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                assert_int_equal(XQueueDestroy(none[i]), kXSchedErrorNotFound);
                assert_int_equal(XQueueSubmit(none[i], 1), kXSchedErrorNotFound);
                assert_int_equal(XQueueWait(none[i], 1), kXSchedErrorNotFound);
                assert_int_equal(XQueueWaitAll(none[i]), kXSchedErrorNotFound);
                assert_int_equal(XQueueQuery(none[i], &s), kXSchedErrorNotFound);
                assert_int_equal(XQueueSuspend(none[i], 0), kXSchedErrorNotFound);
                assert_int_equal(XQueueResume(none[i], 0), kXSchedErrorNotFound);
                assert_int_equal(XQueueSetLaunchConfig(none[i], 1, 1), kXSchedErrorNotFound);
                assert_int_equal(XQueueSetPreemptLevel(none[i], kPreemptLevelBlock), kXSchedErrorNotFound);
                assert_int_equal(XQueueProfileHwCommandCount(none[i], &n), kXSchedErrorNotFound);
                assert_int_equal(XHintPriority(none[i], 0), kXSchedErrorNotFound);
                assert_int_equal(XHintUtilization(none[i], 1), kXSchedErrorNotFound);
                assert_int_equal(XHintLaxity(none[i], 1, 0, 0), kXSchedErrorNotFound);
                assert_int_equal(XHintDeadline(none[i], 1), kXSchedErrorNotFound);
                assert_int_equal(HwQueueDestroy(none[i]), kXSchedErrorNotFound);
                assert_int_equal(HwQueueLaunch(none[i], 1), kXSchedErrorNotFound);
                assert_int_equal(HwQueueSynchronize(none[i]), kXSchedErrorNotFound);
                assert_int_equal(HwCommandDestroy(none[i]), kXSchedErrorNotFound);
                assert_int_equal(XQueueSubmit(q.xq, none[i]), kXSchedErrorNotFound);
                assert_int_equal(XQueueWait(q.xq, none[i]), kXSchedErrorNotFound);
        }

        assert_int_equal(XQueueQuery(q.xq, NULL), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueProfileHwCommandCount(q.xq, NULL), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueSuspend(q.xq, 0x100), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueSetLaunchConfig(q.xq, 4, 5), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueSetLaunchConfig(q.xq, 4, -1), kXSchedErrorInvalidValue); /* 8 in a batch */
        assert_ok(XQueueSetLaunchConfig(q.xq, 0, -1));
        assert_int_equal(XQueueSetPreemptLevel(q.xq, kPreemptLevelMax), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueSetPreemptLevel(q.xq, kPreemptLevelInterrupt), kXSchedErrorNotSupported);
        assert_ok(XQueueSetPreemptLevel(q.xq, kPreemptLevelBlock));
        assert_int_equal(XHintPriority(q.xq, 256), kXSchedErrorInvalidValue);
        assert_int_equal(XHintPriority(q.xq, -257), kXSchedErrorInvalidValue);
        assert_int_equal(XHintUtilization(q.xq, 101), kXSchedErrorInvalidValue);
        assert_int_equal(XHintUtilization(q.xq, -1), kXSchedErrorInvalidValue);
        assert_int_equal(XHintTimeslice(99), kXSchedErrorInvalidValue);
        assert_int_equal(XHintTimeslice(TIMESLICE_MAX + 1), kXSchedErrorInvalidValue);
        assert_ok(XHintTimeslice((Timeslice) TIMESLICE_UNLIMITED));
        assert_ok(XHintTimeslice(TIMESLICE_DEFAULT));
        assert_int_equal(XHintLaxity(q.xq, -2, 0, 0), kXSchedErrorInvalidValue);
        assert_int_equal(XHintLaxity(q.xq, 0, 300, 0), kXSchedErrorInvalidValue);
        assert_ok(XHintLaxity(q.xq, INT64_MAX, PRIORITY_MIN, PRIORITY_MAX));
        assert_int_equal(XHintDeadline(q.xq, 0), kXSchedErrorInvalidValue);
        assert_ok(XHintDeadline(q.xq, INT64_MAX));
        assert_int_equal(XHintKDeadline(0), kXSchedErrorInvalidValue);
        assert_int_equal(XHintSetScheduler(kSchedulerUnknown, 1), kXSchedErrorInvalidValue);
        assert_int_equal(XHintSetScheduler(kSchedulerMax, 1), kXSchedErrorInvalidValue);
        assert_int_equal(XHintSetScheduler(kSchedulerLocal, kPolicyUnknown), kXSchedErrorInvalidValue);
        assert_int_equal(XHintSetScheduler(kSchedulerLocal, kPolicyMax), kXSchedErrorInvalidValue);

        assert_int_equal(HwCommandCreateCallback(NULL, fake_launch, NULL), kXSchedErrorInvalidValue);
        assert_int_equal(HwCommandCreateCallback(&c, NULL, NULL), kXSchedErrorInvalidValue);
        assert_ok(HwCommandCreateCallback(&c, fake_launch, &data));
        assert_int_equal(XQueueWait(q.xq, c), kXSchedErrorNotAllowed); /* not submitted */
        assert_ok(HwCommandDestroy(c));
        assert_int_equal(HwCommandDestroy(c), kXSchedErrorNotFound);
        assert_int_equal(XQueueSubmit(q.xq, c), kXSchedErrorNotFound);
        assert_int_equal(XQueueWait(q.xq, c), kXSchedErrorNotFound);
        assert_ok(HwCommandCreateCallback(&c, fake_launch, &data));
        assert_ok(HwQueueLaunch(q.hwq, c)); /* past the XQueue */
        assert_int_equal(XQueueWait(q.xq, c), kXSchedErrorNotFound);

        assert_ok(XQueueSuspend(q.xq, 0));
        c = submit(&q, &data);
        assert_int_equal(XQueueSubmit(q.xq, c), kXSchedErrorNotAllowed); /* twice */
        assert_int_equal(HwCommandDestroy(c), kXSchedErrorNotAllowed);
        assert_int_equal(HwQueueLaunch(q.hwq, c), kXSchedErrorNotAllowed);
        assert_int_equal(XQueueWait(other.xq, c), kXSchedErrorNotAllowed); /* another's */
        assert_int_equal(HwQueueDestroy(q.hwq), kXSchedErrorNotAllowed);
        assert_ok(XQueueResume(q.xq, 0));
        submit_call(&q, wait_for_self, &q);
        settle(&q);

        /* An XQueue that is suspended with work can be destroyed, and its work is done. */
        assert_ok(XQueueSuspend(q.xq, 0));
        submit(&q, &data);
        size_t before = fake_n_launched();
        end(&q);
        assert_int_equal(fake_n_launched(), before + 1);
        assert_int_equal(XQueueDestroy(q.xq), kXSchedErrorNotFound);
        assert_int_equal(HwQueueDestroy(q.hwq), kXSchedErrorNotFound);
        end(&other);
}

static void test_many(void **state) {
        enum { MANY = 4096 };
        static Queue queues[MANY + 1];

        for (size_t i = 0; i < MANY; i++)
                make(&queues[i]);
        queues[MANY].hwq = fake_queue(&queues[MANY].address, "one");
        assert_int_equal(XQueueCreate(&queues[MANY].xq, queues[MANY].hwq, 1, 0), kXSchedErrorNotAllowed);
        end(&queues[0]);
        assert_ok(XQueueCreate(&queues[MANY].xq, queues[MANY].hwq, 1, 0));
        for (size_t i = 1; i <= MANY; i++)
                end(&queues[i]);
}

/* --- fork --- */

static int child(const Queue *parents, char *data) {
        Queue q;
        XQueueState s;

        if (XQueueQuery(parents->xq, &s) != kXSchedErrorNotFound ||
                        HwQueueDestroy(parents->hwq) != kXSchedErrorNotFound)
                return 1;
        make(&q);
        submit(&q, data);
        if (XQueueWaitAll(q.xq) != kXSchedSuccess)
                return 2;
        end(&q);
        return 0;
}

/* A thread sanitizer follows no child that starts threads. */
static uint64_t cpu_ns(void) {
        struct timespec ts;

        assert_return_code(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), errno);
        return timespec_to_ns(&ts);
}

/* The program closes what it has not opened, as daemons do. The scheduler goes on, and no thread spins. */
static void test_descriptors_closed(void **state) {
        const struct timespec a_while = {.tv_nsec = 100 * (long) NSEC_PER_MSEC};
        Queue low, high;
        char l[2], h;

        make(&low);
        make(&high);
        assert_ok(XQueueSetLaunchConfig(low.xq, 1, 1));
        assert_ok(XHintPriority(high.xq, 2));
        assert_ok(XHintPriority(low.xq, 1));
        lcl(kPolicyHighestPriorityFirst);
        submit(&high, &h);
        settle(&high);
        assert_return_code(close_range(STDERR_FILENO + 1, ~0U, 0), errno);

        fake_forget();
        fake_hold(true);
        submit(&low, l);
        submit(&low, l + 1);
        assert_ptr_equal(fake_launched(1), l);
        submit(&high, &h);
        assert_ptr_equal(fake_launched(2), &h);
        fake_hold(false);
        settle(&low);
        settle(&high);

        uint64_t before = cpu_ns();
        (void) nanosleep(&a_while, NULL);
        assert_in_range(cpu_ns() - before, 0, 50 * NSEC_PER_MSEC);
        end(&low);
        end(&high);
}

static void test_fork(void **state) {
#ifdef __SANITIZE_THREAD__
        return;
#endif
        Queue q;
        char data[2];

        make(&q);
        lcl(kPolicyHighestPriorityFirst);
        submit(&q, data);
        settle(&q);
        pid_t pid = fork();
        if (pid == 0)
                _exit(child(&q, data));
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        submit(&q, data + 1);
        settle(&q);
        assert_int_equal(fake_n_launched(), 2);
        end(&q);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_buffers, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_results, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_priority, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_no_execute, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_inheritance, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_misuse, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_descriptors_closed, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
