/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Programs that use XQueues as nobody should: threads that destroy what others wait for, callbacks that fork, systems
 * without a thread more
 */

#include <alloca.h>
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compat-fixture.h"
#include "include/xsched/xsched.h"
#include "shim/compat/side.h"

static pid_t parent;

/* Asked by the address sanitizer. Children end by exit(): what they have forgotten of their parent's is no leak, nor is
 * what their own threads have at that moment. */
int __lsan_is_turned_off(void);
_public_
int __lsan_is_turned_off(void) {
        return getpid() != parent;
}

static atomic_bool no_threads;

/* In front of libc's. */
_public_
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg) {
        static int (*next)(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

        if (no_threads)
                return EAGAIN;
        if (!next)
                next = dlsym(RTLD_NEXT, "pthread_create");
        return next(thread, attr, start_routine, arg);
}

static XschedQueue *_Atomic boosted;

/* In front of libxsched's. */
_public_
void xsched_queue_boost(XschedQueue *q) {
        boosted = q;
}

static int setup(void **state) {
        fake_forget();
        boosted = NULL;
        return 0;
}

static int teardown(void **state) {
        no_threads = false;
        fake_hold(false);
        assert_ok(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
        return 0;
}

/* --- threads --- */

static void *suspend_when_idle(void *userdata) {
        const Queue *q = userdata;

        (void) XQueueSuspend(q->xq, kQueueSuspendFlagWaitAll);
        return NULL;
}

static void *create(void *userdata) {
        Queue *q = userdata;

        return (void *) (uintptr_t) XQueueCreate(&q->xq, q->hwq, kPreemptLevelBlock, 0);
}

static void *destroy(void *userdata) {
        const Queue *q = userdata;
        return (void *) (uintptr_t) XQueueDestroy(q->xq);
}

static bool is_known(const Queue *q) {
        COMPAT_LOCKED;
        return compat_find(q->xq);
}

/* Makes a queue such as a layer has made: XQueueWaitAll() also waits for the runtime. */
static XschedQueue *make_layers(Queue *q) {
        XschedQueue *layers = NULL;

        *q = (Queue){.hwq = fake_queue(&q->address, "one")};
        const XschedQueueInfo info = {.size = sizeof(info), .device = "one", .backend = "fake", .native = q->hwq};
        assert_int_equal(xsched_queue_new(&info, &layers), 0);
        assert_ok(XQueueCreate(&q->xq, q->hwq, kPreemptLevelBlock, 0));
        return layers;
}

/* A thread waits, to suspend an XQueue then, which is destroyed meanwhile: the XQueue that comes next is suspended as
 * it was. */
static void test_destroyed_while_suspended(void **state) {
        Queue old, new;
        pthread_t thread;

        make(&new);
        end(&new);
        XschedQueue *layers = make_layers(&old);
        fake_forget();
        fake_hold(true);
        assert_int_equal(pthread_create(&thread, NULL, suspend_when_idle, &old), 0);
        fake_await_finish(1);
        assert_ok(XQueueDestroy(old.xq));

        fake_hold_only(old.hwq);
        make(&new);
        assert_ok(XQueueSuspend(new.xq, 0));
        fake_hold(false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(side_is_held(compat_find(new.xq)->side));
        end(&new);
        assert_ok(HwQueueDestroy(old.hwq));
        (void) xsched_queue_unref(layers);
}

/* The handle is destroyed while another thread makes an XQueue of it. */
static void test_destroyed_while_created(void **state) {
        Queue q = {0};
        XQueueHandle x;
        pthread_t thread;
        void *result;

        q.hwq = fake_queue(&q.address, "one");
        fake_hold(true);
        assert_int_equal(pthread_create(&thread, NULL, create, &q), 0);
        fake_await_finish(1);
        assert_ok(HwQueueDestroy(q.hwq));
        fake_hold(false);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal((uintptr_t) result, kXSchedErrorNotFound);
        assert_int_equal(XQueueGet(&x, q.hwq), kXSchedErrorNotFound);
}

static atomic_bool may_end;
static atomic_int creator;

static XResult create_and_wait(HwQueueHandle hwq, void *data) {
        XQueueHandle x = 0;

        while (!may_end)
                (void) sched_yield();
        *(XResult *) data = XQueueCreate(&x, hwq, kPreemptLevelBlock, 0);
        return kXSchedSuccess;
}

static void *create_beside(void *userdata) {
        creator = gettid();
        void *result = create(userdata);
        creator = -1;
        return result;
}

/* Whether the thread sleeps. */
static bool is_asleep(pid_t tid) {
        char path[64], state = 0;

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
        FILE *f = fopen(path, "re");
        if (!f)
                return false;
        int n = fscanf(f, "%*d (%*[^)]) %c", &state);
        (void) fclose(f);
        return n == 1 && state == 'S';
}

/* An XQueue is destroyed while one of its commands runs. Who makes the next one waits for that, and the command cannot;
 * nor is the queue to be destroyed meanwhile. */
static void test_created_while_destroyed(void **state) {
        XResult by_itself = kXSchedSuccess;
        pthread_t destroyer, thread;
        void *result;
        Queue q, new;

        XschedQueue *layers = make_layers(&q);
        submit_call(&q, create_and_wait, &by_itself);
        assert_int_equal(pthread_create(&destroyer, NULL, destroy, &q), 0);
        while (is_known(&q))
                (void) sched_yield();
        new = q;
        assert_int_equal(pthread_create(&thread, NULL, create_beside, &new), 0);
        while (creator == 0 || (creator > 0 && !is_asleep(creator)))
                (void) sched_yield();
        assert_int_equal(HwQueueDestroy(q.hwq), kXSchedErrorNotAllowed);
        may_end = true;
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal((uintptr_t) result, kXSchedSuccess);
        assert_int_equal(pthread_join(destroyer, &result), 0);
        assert_int_equal((uintptr_t) result, kXSchedSuccess);
        assert_int_equal(by_itself, kXSchedErrorNotAllowed);
        assert_int_not_equal(new.xq, q.xq);
        assert_true(is_known(&new));
        end(&new);
        (void) xsched_queue_unref(layers);
}

static void other_begin(void *userdata, int wait) {
}

static void other_complete(void *userdata, uint32_t n) {
}

static uint32_t other_limit(void *userdata) {
        return 0;
}

static int other_held(void *userdata) {
        return 0;
}

static unsigned n_edges;

static void on_edge(XQueue *x) {
        n_edges++;
}

/* No XQueue can be made, because something else is in front of the layer's queue. An edge that the slot's former XQueue
 * has left is nobody's. */
static void test_not_made(void **state) {
        const XschedLocal other = {.size = sizeof(other),
                        .begin = other_begin,
                        .complete = other_complete,
                        .limit = other_limit,
                        .held = other_held};
        Queue former, q;

        XschedQueue *layers = make_layers(&q);
        assert_ok(XQueueDestroy(q.xq));
        assert_int_equal(xsched_queue_set_local(layers, &other), 0);
        make(&former);
        const Side *side = compat_find(former.xq)->side;
        end(&former);
        assert_int_equal(side->refs, 0);
        assert_int_equal(XQueueCreate(&q.xq, q.hwq, kPreemptLevelBlock, 0), kXSchedErrorNotAllowed);
        {
                COMPAT_LOCKED;
                page_mark_dirty(side->header, side->index);
                side_take_edges(on_edge);
        }
        assert_int_equal(n_edges, 0);
        assert_int_equal(xsched_queue_set_local(layers, NULL), 0);
        assert_ok(XQueueCreate(&q.xq, q.hwq, kPreemptLevelBlock, 0));
        assert_ptr_equal(compat_find(q.xq)->side, side);
        end(&q);
        (void) xsched_queue_unref(layers);
}

static bool is_waiting(const Queue *q) {
        COMPAT_LOCKED;
        return compat_find(q->xq)->waits_for;
}

static void *suspend_and_wait(void *userdata) {
        const Queue *q = userdata;

        assert_ok(XQueueSuspend(q->xq, kQueueSuspendFlagSyncHwQueue));
        return NULL;
}

/* It is suspended already, and still "what is in flight ends first". */
static void test_suspended_twice(void **state) {
        pthread_t thread;
        Queue q;
        char data;

        make(&q);
        fake_forget();
        fake_hold(true);
        submit(&q, &data);
        fake_await_finish(1);
        assert_ok(XQueueSuspend(q.xq, 0));
        assert_int_equal(pthread_create(&thread, NULL, suspend_and_wait, &q), 0);
        fake_await_finish(2);
        fake_hold(false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        end(&q);
}

/* --- waiting --- */

typedef struct Wait {
        const Queue *on;
        HwCommandHandle command;
} Wait;

static XResult wait_for_other(HwQueueHandle hwq, void *data) {
        const Wait *w = data;
        return XQueueWait(w->on->xq, w->command);
}

/* The highest XQueue waits for a command of the lowest when it is destroyed, while the middle one always has work: the
 * lowest inherits still, so that the highest comes to its end. */
static void test_destroyed_while_waiting(void **state) {
        Queue low, middle, high;
        pthread_t thread;
        void *result;
        char data[3];

        make(&low);
        make(&middle);
        make(&high);
        assert_ok(XHintPriority(low.xq, -10));
        assert_ok(XHintPriority(high.xq, 10));
        assert_ok(XQueueSetLaunchConfig(middle.xq, 1, 1));
        assert_ok(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
        fake_forget();
        fake_hold(true);
        submit(&middle, data);
        submit(&middle, data + 1);
        assert_ptr_equal(fake_launched(1), data);
        look(&middle);
        assert_ok(XQueueSuspend(low.xq, 0));

        Wait w = {.on = &low, .command = submit(&low, data + 2)};
        submit_call(&high, wait_for_other, &w);
        while (!is_waiting(&high))
                (void) sched_yield();
        assert_int_equal(pthread_create(&thread, NULL, destroy, &high), 0);
        while (is_known(&high))
                (void) sched_yield();
        assert_ok(XQueueResume(low.xq, 0));
        assert_ptr_equal(fake_launched(2), data + 2);
        fake_hold(false);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal((uintptr_t) result, kXSchedSuccess);
        assert_ok(HwQueueDestroy(high.hwq));
        settle(&middle);
        end(&low);
        end(&middle);
}

/* xschedd is told of it when it becomes the scheduler. */
static void test_global_while_waiting(void **state) {
        Queue low, high;
        char data;

        make(&low);
        make(&high);
        assert_ok(XQueueSuspend(low.xq, 0));
        Wait w = {.on = &low, .command = submit(&low, &data)};
        submit_call(&high, wait_for_other, &w);
        while (!is_waiting(&high))
                (void) sched_yield();
        assert_null(boosted);
        assert_ok(XHintSetScheduler(kSchedulerGlobal, kPolicyUnknown));
        assert_ptr_equal(boosted, compat_find(low.xq)->queue);
        assert_ok(XQueueResume(low.xq, 0));
        settle(&high);
        end(&low);
        end(&high);
}

/* --- what there is not --- */

static void test_no_threads(void **state) {
        HwCommandHandle c;
        XQueueHandle x = 0;
        Queue q = {0};
        char data;

        /* First without a thread for the local scheduler, then without one for commands. */
        assert_ok(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
        q.hwq = fake_queue(&q.address, "one");
        no_threads = true;
        assert_int_equal(XQueueCreate(&x, q.hwq, kPreemptLevelBlock, 0), kXSchedErrorHardware);
        assert_int_equal(x, 0);
        assert_int_equal(XQueueGet(&x, q.hwq), kXSchedErrorNotFound);
        no_threads = false;
        assert_ok(XQueueCreate(&q.xq, q.hwq, kPreemptLevelBlock, 0));

        no_threads = true;
        assert_ok(HwCommandCreateCallback(&c, fake_launch, &data));
        assert_int_equal(XQueueSubmit(q.xq, c), kXSchedErrorHardware);
        no_threads = false;
        assert_ok(XQueueSubmit(q.xq, c));
        settle(&q);
        assert_int_equal(fake_n_launched(), 1);
        end(&q);
}

static void test_flags(void **state) {
        Queue q;
        XQueueHandle x;

        make(&q);
        assert_int_equal(XQueueCreate(&x, q.hwq, kPreemptLevelBlock, 0x100), kXSchedErrorInvalidValue);
        assert_ok(XQueueSuspend(q.xq, 0));
        assert_int_equal(XQueueResume(q.xq, 0x100), kXSchedErrorInvalidValue);
        assert_int_equal(XQueueResume(q.xq, INT64_MIN), kXSchedErrorInvalidValue);
        assert_true(side_is_held(compat_find(q.xq)->side));
        assert_ok(XQueueResume(q.xq, kQueueResumeFlagMaskAll));
        end(&q);
}

/* The functions of libxsched that are not called at each launch. */
static void test_no_queue(void **state) {
        const XschedLocal local = {.size = sizeof(local)};

        assert_int_equal(xsched_queue_hint(NULL, "Priority", 0), -EINVAL);
        assert_int_equal(xsched_queue_hint(NULL, "WillLaunch", 0), -EINVAL);
        assert_int_equal(xsched_queue_set_local(NULL, &local), -EINVAL);
        assert_int_equal(xsched_queue_set_local(NULL, NULL), -EINVAL);
        assert_null(xsched_queue_device(NULL));
}

/* --- callbacks --- */

/* As deep as the program's own threads may go. */
static XResult use_stack(HwQueueHandle hwq, void *data) {
        pthread_attr_t attr;
        size_t n = 0;

        assert_int_equal(pthread_attr_init(&attr), 0);
        assert_int_equal(pthread_attr_getstacksize(&attr, &n), 0);
        assert_int_equal(pthread_attr_destroy(&attr), 0);
        n = n / 4 * 3;
        volatile char *room = alloca(n);

        for (size_t i = 0; i < n; i += 1024)
                room[i] = (char) i;
        return room[1024] == 0 ? kXSchedSuccess : kXSchedErrorUnknown;
}

static void test_stack(void **state) {
        Queue q;

        make(&q);
        submit_call(&q, use_stack, NULL);
        settle(&q);
        end(&q);
}

static XResult fork_and_return(HwQueueHandle hwq, void *data) {
        *(pid_t *) data = fork();
        return kXSchedSuccess;
}

/* The child returns into the XQueue's thread, which is its only one. */
static void test_callback_forks(void **state) {
#ifdef __SANITIZE_THREAD__
        return;
#endif
        pid_t pid = -1;
        int status = -1;
        char data[3];
        Queue q;

        make(&q);
        assert_ok(XQueueSuspend(q.xq, 0));
        submit(&q, data);
        submit_call(&q, fork_and_return, &pid);
        submit(&q, data + 1);
        assert_ok(XQueueResume(q.xq, 0));
        settle(&q);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(fake_n_launched(), 2);
        end(&q);
}

/* --- the end of the process --- */

static Queue last;

static void end_last(void) {
        if (XQueueSuspend(last.xq, 0) != kXSchedSuccess || XQueueDestroy(last.xq) != kXSchedSuccess ||
                        HwQueueDestroy(last.hwq) != kXSchedSuccess)
                _exit(3);
}

static XResult resume_itself(HwQueueHandle hwq, void *data) {
        return XQueueResume(last.xq, 0);
}

/* exit() while commands are launched, and one of its handlers destroys the XQueue. */
static void test_exit(void **state) {
#ifdef __SANITIZE_THREAD__
        return;
#endif
        int status = -1;
        char data;

        for (int handler = 0; handler < 2; handler++) {
                pid_t pid = fork();
                if (pid == 0) {
                        make(&last);
                        if (handler)
                                (void) atexit(end_last);
                        for (unsigned i = 0; i < 100; i++)
                                submit_call(&last, i % 10 ? fake_launch : resume_itself, &data);
                        exit(0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_int_equal(status, 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        /* First, because it is to be the one that starts the scheduler's thread. */
                        /* First: a worker that has launched its last command keeps its XQueue's slot for a moment. */
                        cmocka_unit_test_setup_teardown(test_not_made, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_no_threads, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_destroyed_while_suspended, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_destroyed_while_created, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_created_while_destroyed, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_suspended_twice, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_destroyed_while_waiting, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_global_while_waiting, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_flags, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_no_queue, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_stack, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_callback_forks, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_exit, setup, teardown),
        };

        parent = getpid();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
