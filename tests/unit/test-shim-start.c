/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched where its thread cannot be started at first, or has no memory: launches pass, and start it later
 */

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "shim-cases.h"
#include "shim/core/control.h"

static _Atomic bool refuse, refuse_memory;
static _Atomic unsigned refused;

int __real_thread_start(void *(*main)(void *), void *userdata, size_t stack_size);
int __wrap_thread_start(void *(*main)(void *), void *userdata, size_t stack_size);

int __wrap_thread_start(void *(*main)(void *), void *userdata, size_t stack_size) {
        if (!atomic_load(&refuse))
                return __real_thread_start(main, userdata, stack_size);
        atomic_fetch_add(&refused, 1);
        return -EAGAIN;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size) {
        if (n * size < sizeof(Control) || !atomic_load(&refuse_memory))
                return __real_calloc(n, size);
        atomic_fetch_add(&refused, 1);
        return NULL;
}

static void launch_once(XschedQueue *q) {
        errno = ENOTUNIQ;
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(errno == ENOTUNIQ);
}

/* Launches until the process is a client with a queue, and says so. Returns how many launches that took; 0: never. */
static uint64_t launch_until_attached(FakeScheduler *s, XschedQueue *q) {
        uint64_t before = counters().launches;

        bool attached = scheduler_until(s, (launch_once(q), counters().queues == 1));
        return attached ? counters().launches - before : 0;
}

/* Nobody makes another queue. */
static void case_no_thread(void) {
        FakeScheduler *s = scheduler();

        atomic_store(&refuse, true);
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(atomic_load(&refused) == 1);
        for (unsigned i = 0; i < 100; i++)
                CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(maps_say("xsched: its thread cannot be started: Resource temporarily unavailable :xsched"));
        CHECK(counters().state == XSCHED_STATE_OFF && counters().launches == 100);

        atomic_store(&refuse, false);
        uint64_t n = launch_until_attached(s, q);
        CHECK(n > 0);
        CHECK(!maps_say("xsched: its"));
        CHECK(s->n_clients == 1 && atomic_load(&fake_slot(s->clients[0].f, 0)->submitted) == 100 + n);

        /* It is held as any other. */
        page_slot_set_watch(fake_slot(s->clients[0].f, 0), WATCH_ALL);
        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        Launcher l;
        launch(&l, q);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        fake_run(s->clients[0].f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
}

/* Nor is there memory for what the thread works with, at first. */
static void case_no_memory(void) {
        FakeScheduler *s = scheduler();

        atomic_store(&refuse_memory, true);
        XschedQueue *q = queue((XschedQueueInfo){});
        launch_once(q);
        CHECK(poll_until(atomic_load(&refused) == 1));
        CHECK(poll_until(maps_say("xsched: its thread cannot be started: Cannot allocate memory :xsched")));
        atomic_store(&refuse_memory, false);
        CHECK(launch_until_attached(s, q) > 0);
        CHECK(!maps_say("xsched: its"));
}

/* What was launched before may still run: the service does not take that queue for an idle one. */
static void case_launched_before(void) {
        FakeScheduler *s = scheduler();
        unsigned n = 0;

        atomic_store(&refuse, true);
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        atomic_store(&refuse, false);
        (void) queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, counters().queues == 2));
        for (uint32_t i = 0; i < 2; i++)
                n += atomic_load(&fake_slot(s->clients[0].f, i)->outstanding) == PAGE_OUTSTANDING_UNTRACKED;
        CHECK(n == 1);
}

/* The attempts get rarer: one at once, and then one after 0.1 s, 0.2 s, 0.4 s, ... */
static void case_back_off(void) {
        FakeScheduler *s = scheduler();
        uint64_t begin = now_ns(), next;

        atomic_store(&refuse, true);
        XschedQueue *q = queue((XschedQueueInfo){});
        for (unsigned n = 1; n < 4; n++) {
                CHECK(atomic_load(&refused) == n);
                next = begin + ((UINT64_C(1) << n) - 1) * 100 * NSEC_PER_MSEC;
                while (atomic_load(&refused) == n) {
                        CHECK(now_ns() < begin + TEST_DEADLINE_NS);
                        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
                }
                CHECK(now_ns() >= next);
        }
        atomic_store(&refuse, false);
        CHECK(launch_until_attached(s, q) > 0);
}

/* Every number is in use. */
static void case_no_descriptor(void) {
        FakeScheduler *s = scheduler();
        struct rlimit limit, none;

        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        none = limit;
        none.rlim_cur = STDERR_FILENO + 1;
        CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(launch_until_attached(s, q) > 0);
}

static XschedQueue *launched_in_handler;

static void launch_in_handler(int sig) {
        CHECK(xsched_queue_begin(launched_in_handler) == XSCHED_UNTRACKED);
}

/* The thread that a handler has interrupted may be inside of pthread_create(). And who must not wait starts none. */
static void case_not_in_handlers(void) {
        FakeScheduler *s = scheduler();
        struct sigaction action = {.sa_handler = launch_in_handler};

        atomic_store(&refuse, true);
        launched_in_handler = queue((XschedQueueInfo){});
        CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
        for (uint64_t end = now_ns() + 250 * NSEC_PER_MSEC; now_ns() < end;) {
                CHECK(raise(SIGUSR1) == 0);
                CHECK(xsched_queue_begin_nowait(launched_in_handler) == XSCHED_UNTRACKED);
        }
        CHECK(atomic_load(&refused) == 1);
        atomic_store(&refuse, false);
        CHECK(launch_until_attached(s, launched_in_handler) > 0);
}

/* The child of a process without the thread is no client before it makes a queue of its own. */
static void case_fork(void) {
        FakeScheduler *s = scheduler();
        int status = -1;

        atomic_store(&refuse, true);
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        pid_t pid = fork();
        if (pid == 0) {
                for (uint64_t end = now_ns() + 250 * NSEC_PER_MSEC; now_ns() < end;)
                        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
                CHECK(atomic_load(&refused) == 1);
                XschedQueue *own = queue((XschedQueueInfo){.label = "child"});
                CHECK(atomic_load(&refused) == 2);
                atomic_store(&refuse, false);
                CHECK(poll_until((xsched_queue_begin(own), counters().queues == 1)));
                _exit(0);
        }
        CHECK(pid > 0);
        CHECK(scheduler_until(s, waitpid(pid, &status, WNOHANG) == pid));
        CHECK(status == 0 && s->n_clients == 1 && streq(s->label, "child"));
        atomic_store(&refuse, false);
        CHECK(scheduler_until(s, (xsched_queue_begin(q), counters().queues == 1)));
        CHECK(s->n_clients == 2);
}

static void *launch_for_ever(void *q) {
        while (counters().queues < 2)
                (void) xsched_queue_begin(q);
        return NULL;
}

/* Many threads launch, and one of them starts it. A queue that was made during a failed attempt is found, too. */
static void case_many_threads(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q[2];
        pthread_t threads[4];

        atomic_store(&refuse, true);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                q[i] = queue((XschedQueueInfo){});
        atomic_store(&refuse, false);
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(&threads[i], NULL, launch_for_ever, q[i % 2]) == 0);
        CHECK(scheduler_until(s, counters().queues == 2));
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(s->n_clients == 1);
}

static void *cancelled_main(void *userdata) {
        CHECK(pthread_cancel(pthread_self()) == 0);
        queue((XschedQueueInfo){});
        CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
        return NULL;
}

/* A request to end the thread that makes the first queue does not keep the control thread from being started. */
static void case_cancelled(void) {
        FakeScheduler *s = scheduler();
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, cancelled_main, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(scheduler_until(s, counters().queues == 1));
}

static const BusCase cases[] = {
                CASE(no_thread),
                CASE(no_memory),
                CASE(launched_before),
                CASE(back_off),
                CASE(no_descriptor),
                CASE(not_in_handlers),
                CASE(fork),
                CASE(many_threads),
                CASE(cancelled),
};

int main(int argc, char *argv[]) {
        return run_cases(cases, ELEMENTSOF(cases), argc, argv);
}
