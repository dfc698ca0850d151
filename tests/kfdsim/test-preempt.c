/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched_preempt_*() on simulated GPUs
 */

#include <errno.h>
#include <signal.h>

#include "harness.h"
#include "xsched/preempt.h"

static const int modes[] = {XSCHED_PREEMPT_DEBUG, XSCHED_PREEMPT_CRIU};

static Busy *busy_new(pid_t *ret) {
        Busy *b = shared_new(sizeof(*b));

        b->duration_ns = NSEC_PER_MSEC;
        b->runtime_enable = true;
        *ret = busy_start(b);
        return b;
}

static XschedPreempt *preempt_new(int mode, uint32_t flags) {
        XschedPreempt *p = NULL;

        check(xsched_preempt_init(mode, flags, &p) == 0 && p);
        return p;
}

static bool is_suspended(XschedPreempt *p, pid_t pid) {
        XschedPreemptQueue q = {0};

        check(xsched_preempt_query_queues(p, pid, &q, 1) == 1);
        check(q.type == XSCHED_PREEMPT_COMPUTE && q.gpu_id != 0 && q.ring_size >= 1024);
        return q.suspended;
}

static void case_arguments(void) {
        XschedPreempt *p = NULL;
        uint32_t id = 1;

        check(xsched_preempt_init(0, 0, &p) == -EINVAL && xsched_preempt_init(3, 0, &p) == -EINVAL);
        check(xsched_preempt_init(XSCHED_PREEMPT_CRIU, 2, &p) == -EINVAL && !p);
        check(xsched_preempt_init(XSCHED_PREEMPT_CRIU, 0, NULL) == -EINVAL);
        check(!xsched_preempt_free(NULL));
        p = preempt_new(XSCHED_PREEMPT_DEBUG, 0);
        check(xsched_preempt_suspend_queues(NULL, getpid(), NULL, 0) == -EINVAL);
        check(xsched_preempt_suspend_queues(p, 0, NULL, 0) == -EINVAL);
        check(xsched_preempt_suspend_queues(p, getppid(), NULL, 1) == -EINVAL);
        check(xsched_preempt_suspend_queues(p, getppid(), &id, 0) == -EINVAL);
        check(xsched_preempt_query_queues(p, getppid(), NULL, 1) == -EINVAL);
        check(xsched_preempt_query_queues(p, getppid(), NULL, 0) == -ESRCH);
        check(xsched_preempt_suspend_queues(p, getppid(), NULL, 0) == -ENODEV);
        check(xsched_preempt_strerror(-ENODEV)[0] && xsched_preempt_strerror(0)[0]);
        check(!xsched_preempt_free(p));
}

static void case_all_queues(void) {
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid;
                Busy *b = busy_new(&pid);
                XschedPreempt *p = preempt_new(modes[i], 0);
                for (unsigned k = 0; k < 3; k++) {
                        check(!is_suspended(p, pid));
                        check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0);
                        check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0);
                        check(is_suspended(p, pid) && busy_stands_still(b));
                        check(xsched_preempt_resume_queues(p, pid, NULL, 0) == 0);
                        check(xsched_preempt_resume_queues(p, pid, NULL, 0) == 0);
                        check(!is_suspended(p, pid) && busy_goes_on(b));
                }
                check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0 && busy_stands_still(b));
                check(!xsched_preempt_free(p) && busy_goes_on(b));
                busy_stop(b, pid);
        }
}

static void case_some_queues(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        uint32_t ids[] = {b->queue_id, 0x7ffe};
        XschedPreempt *p = preempt_new(XSCHED_PREEMPT_DEBUG, 0);

        check(xsched_preempt_suspend_queues(p, pid, ids, 2) == 1);
        check(ids[0] == b->queue_id && ids[1] == (0x7ffe | XSCHED_PREEMPT_QUEUE_INVALID));
        check(is_suspended(p, pid) && busy_stands_still(b));
        check(xsched_preempt_resume_queues(p, pid, ids, 1) == 1);
        check(!is_suspended(p, pid) && busy_goes_on(b));
        check(!xsched_preempt_free(p));

        p = preempt_new(XSCHED_PREEMPT_CRIU, 0);
        check(xsched_preempt_suspend_queues(p, pid, ids, 1) == -EOPNOTSUPP && busy_goes_on(b));
        check(!xsched_preempt_free(p));
        busy_stop(b, pid);
}

/* Another object, of another process, finds what the first has left suspended. */
typedef struct Suspender {
        pid_t target;
        _Atomic bool done;
} Suspender;

static void suspend_and_wait(void *userdata) {
        Suspender *s = userdata;
        XschedPreempt *p = preempt_new(XSCHED_PREEMPT_CRIU, 0);

        check(xsched_preempt_suspend_queues(p, s->target, NULL, 0) == 0);
        s->done = true;
        for (;;)
                (void) pause();
}

static void case_left_behind(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        Suspender *s = shared_new(sizeof(*s));
        s->target = pid;
        pid_t suspender = child_start(suspend_and_wait, s);

        check(poll_until(s->done));
        check(child_kill(suspender) == -SIGKILL && busy_stands_still(b));
        XschedPreempt *p = preempt_new(XSCHED_PREEMPT_CRIU, 0);
        check(xsched_preempt_resume_queues(p, pid, NULL, 0) == 0 && busy_goes_on(b));
        check(!xsched_preempt_free(p));
        busy_stop(b, pid);
}

static void case_target_ends(void) {
        pid_t pids[ELEMENTSOF(modes)];

        /* Before there is a thread: one that ends takes locks of the address sanitizer's, and a child that is forked
         * meanwhile waits for them for ever. */
        for (size_t i = 0; i < ELEMENTSOF(modes); i++)
                (void) busy_new(pids + i);
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid = pids[i];
                XschedPreempt *p = preempt_new(modes[i], 0);
                check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0);
                check(child_kill(pid) == -SIGKILL);
                check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == -ESRCH);
                check(xsched_preempt_resume_queues(p, pid, NULL, 0) == -ESRCH);
                check(xsched_preempt_query_queues(p, pid, NULL, 0) == -ESRCH);
                check(!xsched_preempt_free(p));
        }
}

static void case_mes(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        XschedPreempt *p = preempt_new(XSCHED_PREEMPT_CRIU, 0);

        check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == -EOPNOTSUPP && busy_goes_on(b));
        check(!xsched_preempt_free(p));
        p = preempt_new(XSCHED_PREEMPT_CRIU, XSCHED_PREEMPT_ALLOW_MES);
        check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0 && busy_stands_still(b));
        check(!xsched_preempt_free(p) && busy_goes_on(b));
        busy_stop(b, pid);
}

/* After fork() the object is the parent's: the child can neither use it, nor resume by ending. */
static void use_in_child(void *userdata) {
        XschedPreempt *p = userdata;

        check(xsched_preempt_suspend_queues(p, getppid(), NULL, 0) == -EPERM);
        check(!xsched_preempt_free(p));
}

static void case_fork(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        XschedPreempt *p = preempt_new(XSCHED_PREEMPT_CRIU, 0);

        check(xsched_preempt_suspend_queues(p, pid, NULL, 0) == 0);
        check(child_wait(child_start(use_in_child, p)) == EXIT_SUCCESS);
        check(busy_stands_still(b) && is_suspended(p, pid));
        check(!xsched_preempt_free(p) && busy_goes_on(b));
        busy_stop(b, pid);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"arguments", NULL, NULL, case_arguments},
                        {"all-queues", NULL, NULL, case_all_queues},
                        {"some-queues", NULL, NULL, case_some_queues},
                        {"left-behind", NULL, NULL, case_left_behind},
                        {"target-ends", NULL, NULL, case_target_ends},
                        {"mes", "gfx1100", NULL, case_mes},
                        {"fork", NULL, NULL, case_fork},
        };

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root, to trace and to pause");
                return EXIT_SUCCESS;
        }
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
