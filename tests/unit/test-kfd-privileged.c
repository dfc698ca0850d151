/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD, over a driver that the test plays: it keeps KFD's books, and fails when it is told to
 *
 * The books: evictions are counted and one pause is remembered; suspended queues and who is enabled; each call must come from the thread that
 * seized. Whatever fails, in whatever order, a target that says RUNNING must have no eviction and no suspended queue.
 */

#include <sys/syscall.h>

#include "common/macro.h"
#include "hal/kfd-privileged.h"
#include "tests/lib/unit.h"

#define PID      4711
#define START    815
#define THEIRS   1001
#define OURS     1002
#define EVENTS   1003
#define PIDFD    1004
#define PARENTS  1005
#define QUEUES   70 /* more than the first guess of the backend */
#define FAILURES 8

/* What one call of an operation does: fails with an error, before or after it has done its work. */
typedef struct Failure {
        unsigned op;
        int error;
        bool late;
} Failure;

static struct Driver {
        /* the process */
        bool is_there, has_device, inherits, has_mes, cannot_tell_mes, may_trace;
        uint32_t runtime_state;
        bool runtime_told;
        pid_t tracer;
        unsigned n_seizes, busy_seizes; /* the former tracer is on its way out for so many looks */
        uint64_t clock;

        uint32_t minor;
        bool no_criu;

        /* criu */
        int evictions;
        bool paused;
        unsigned n_pauses;

        /* debug */
        bool enabled;
        bool others_debug;
        uint32_t n_queues;
        struct {
                uint32_t type;
                bool new, suspended, broken;
        } queues[QUEUES];

        Failure failures[FAILURES];
        size_t n_failures, next_failure;
} driver;

#define OP_CRIU(op)  (100U + (op))
#define OP_DEBUG(op) (200U + (op))

static int setup(void **state) {
        driver = (struct Driver){.is_there = true,
                        .has_device = true,
                        .may_trace = true,
                        .runtime_state = 1,
                        .minor = 17,
                        .clock = 1};
        return 0;
}

static void fail_next(unsigned op, int error, bool late) {
        driver.failures[driver.n_failures++] = (Failure){op, error, late};
}

static const Failure *take_failure(unsigned op) {
        if (driver.next_failure < driver.n_failures && driver.failures[driver.next_failure].op == op)
                return driver.failures + driver.next_failure++;
        return NULL;
}

static int fake_open_process(pid_t pid, uint64_t *ret_start_time) {
        assert_int_equal(pid, PID);
        *ret_start_time = START;
        return driver.is_there ? PIDFD : -ESRCH;
}

/* Fd 3 may be inherited, fd 5 is its own. */
static int fake_open_device(pid_t pid, int pidfd, int *at) {
        assert_int_equal(pidfd, PIDFD);
        if (!driver.has_device || *at > 5)
                return -ENODEV;
        bool inherited = driver.inherits && *at <= 3;
        *at = inherited ? 3 : 5;
        return inherited ? PARENTS : THEIRS;
}

static int fake_open_own(void) {
        return OURS;
}

static int fake_open_events(void) {
        return EVENTS;
}

static int fake_has_mes(pid_t pid) {
        if (!driver.has_device)
                return -ESRCH;
        return driver.cannot_tell_mes ? -ENOENT : driver.has_mes;
}

static pid_t self(void) {
        return (pid_t) syscall(SYS_gettid);
}

static int fake_seize(pid_t pid) {
        assert_int_not_equal(self(), getpid()); /* never the caller's own thread: it does not end */
        driver.n_seizes++;
        if (!driver.is_there)
                return -ESRCH;
        if (!driver.may_trace)
                return -EPERM;
        if (driver.busy_seizes > 0) {
                driver.busy_seizes--;
                return -EPERM;
        }
        driver.tracer = self();
        return 0;
}

static int fake_tracer(pid_t pid, pid_t *ret) {
        *ret = driver.tracer;
        return 0;
}

static bool fake_is_own_thread(pid_t tid) {
        return tid != 1;
}

static uint64_t fake_now(void) {
        return driver.clock += 1000;
}

static void fake_nap(void) {
        driver.clock += NSEC_PER_MSEC;
}

static int criu_op(KfdCriu *c) {
        switch (c->op) {
        case KFD_CRIU_PROCESS_INFO:
                driver.evictions++;
                driver.n_pauses++;
                driver.paused = true;
                return 0;
        case KFD_CRIU_UNPAUSE:
                if (!driver.paused)
                        return -EINVAL;
                driver.paused = false;
                driver.evictions--;
                return 0;
        default:
                return -EINVAL;
        }
}

static uint32_t resume(uint32_t id) {
        bool was = driver.queues[id].suspended;
        driver.queues[id].suspended = false;
        return was;
}

static int debug_suspend(KfdDbgTrap *a) {
        uint32_t *ids = (uint32_t *) (uintptr_t) a->suspend_queues.queue_array_ptr;
        int done = 0;

        for (uint32_t i = 0; i < a->suspend_queues.num_queues; i++)
                if (ids[i] >= driver.n_queues || driver.queues[ids[i]].new)
                        ids[i] |= KFD_DBG_QUEUE_INVALID;
                else if (driver.queues[ids[i]].broken)
                        ids[i] |= KFD_DBG_QUEUE_ERROR;
                else {
                        driver.queues[ids[i]].suspended = true;
                        done++;
                }
        return done;
}

static int debug_resume(KfdDbgTrap *a) {
        uint32_t *ids = (uint32_t *) (uintptr_t) a->resume_queues.queue_array_ptr;
        uint32_t done = 0;

        for (uint32_t i = 0; ids && i < a->resume_queues.num_queues; i++)
                if (ids[i] < driver.n_queues)
                        done += resume(ids[i]);
                else
                        ids[i] |= KFD_DBG_QUEUE_INVALID;
        for (uint32_t i = 0; !ids && i < driver.n_queues; i++)
                done += resume(i);
        return (int) done;
}

static int debug_snapshot(KfdDbgTrap *a) {
        KfdQueueSnapshot *s = (KfdQueueSnapshot *) (uintptr_t) a->queue_snapshot.snapshot_buf_ptr;

        assert_int_equal(a->queue_snapshot.entry_size, sizeof(*s));
        for (uint32_t i = 0; i < MIN(driver.n_queues, a->queue_snapshot.num_queues); i++) {
                s[i] = (KfdQueueSnapshot){.queue_id = i, .queue_type = driver.queues[i].type};
                driver.queues[i].new = false;
        }
        a->queue_snapshot.num_queues = driver.n_queues;
        return 0;
}

static int debug_op(KfdDbgTrap *a) {
        assert_int_equal(a->pid, PID);
        if (a->op != KFD_DBG_TRAP_ENABLE && !driver.enabled)
                return -EINVAL;
        switch (a->op) {
        case KFD_DBG_TRAP_ENABLE:
                if (driver.others_debug)
                        return -EALREADY;
                assert_int_equal(a->enable.dbg_fd, EVENTS);
                assert_int_equal(a->enable.exception_mask, 0);
                driver.enabled = true;
                ((KfdRuntimeInfo *) (uintptr_t) a->enable.rinfo_ptr)->runtime_state = driver.runtime_state;
                return 0;
        case KFD_DBG_TRAP_DISABLE:
                for (uint32_t i = 0; i < driver.n_queues; i++)
                        driver.queues[i].suspended = false;
                driver.enabled = false;
                return 0;
        case KFD_DBG_TRAP_SEND_RUNTIME_EVENT:
                driver.runtime_told = true;
                return 0;
        case KFD_DBG_TRAP_SUSPEND_QUEUES:
                return driver.runtime_state == 1 ? debug_suspend(a) : -EPERM;
        case KFD_DBG_TRAP_RESUME_QUEUES:
                return driver.runtime_state == 1 ? debug_resume(a) : -EPERM;
        case KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT:
                return debug_snapshot(a);
        default:
                return -EINVAL;
        }
}

static bool must_trace(int nr, const void *arg) {
        return nr == KFD_NR_CRIU_OP ||
                        (nr == KFD_NR_DBG_TRAP && ((const KfdDbgTrap *) arg)->op != KFD_DBG_TRAP_DISABLE);
}

static int answer(int fd, int nr, void *arg) {
        if (must_trace(nr, arg) && driver.tracer != self())
                return nr == KFD_NR_CRIU_OP ? -EBADF : -EPERM;
        switch (nr) {
        case KFD_NR_GET_VERSION:
                assert_int_equal(fd, OURS);
                *(KfdVersion *) arg = (KfdVersion){1, driver.minor};
                return 0;
        case KFD_NR_CRIU_OP:
                if (fd == PARENTS)
                        return -EBADF;
                assert_int_equal(fd, THEIRS);
                return driver.no_criu ? -ENOTTY : criu_op(arg);
        default:
                assert_int_equal(fd, OURS);
                return debug_op(arg);
        }
}

static int fake_ioctl(int fd, unsigned long request, ...) {
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        int nr = kfd_ioctl_nr(request), r = 0;
        unsigned op = nr == KFD_NR_CRIU_OP      ? OP_CRIU(((KfdCriu *) arg)->op)
                        : nr == KFD_NR_DBG_TRAP ? OP_DEBUG(((KfdDbgTrap *) arg)->op)
                                                : 0;
        const Failure *f = take_failure(op);
        if (!f || f->late)
                r = answer(fd, nr, arg);
        if (f && r >= 0)
                r = f->error;
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}

static const KfdTargetSys sys = {
                .open_process = fake_open_process,
                .open_device = fake_open_device,
                .open_own = fake_open_own,
                .open_events = fake_open_events,
                .has_mes = fake_has_mes,
                .seize = fake_seize,
                .tracer = fake_tracer,
                .is_own_thread = fake_is_own_thread,
                .ioctl = fake_ioctl,
                .now = fake_now,
                .nap = fake_nap,
};

static KfdTarget open_target(KfdPrivilegedMode mode) {
        KfdTarget t = KFD_TARGET_NULL;

        assert_int_equal(kfd_target_open(mode, PID, START, false, &sys, &t), 0);
        return t;
}

/* Our fds are numbers only. */
static void close_target(KfdTarget *t) {
        assert_int_equal(t->state, KFD_TARGET_RUNNING);
        t->device = t->events = t->pidfd = -EBADF;
        kfd_target_done(t);
}

static unsigned n_suspended(void) {
        unsigned n = 0;
        for (uint32_t i = 0; i < driver.n_queues; i++)
                n += driver.queues[i].suspended;
        return n;
}

static void assert_truth(const KfdTarget *t) {
        if (t->state == KFD_TARGET_UNSURE)
                return;
        assert_int_equal(driver.evictions, driver.paused);
        assert_int_equal(driver.enabled, t->enabled);
        assert_int_equal(n_suspended(), t->n_suspended);
        if (t->ops == &kfd_criu_ops)
                assert_int_equal(driver.evictions, t->state == KFD_TARGET_HELD);
        else if (t->state == KFD_TARGET_RUNNING)
                assert_false(driver.enabled);
}

/* --- opening --- */

static void test_modes(void **state) {
        KfdTarget t = KFD_TARGET_NULL;

        assert_int_equal(kfd_privileged_mode_from_string("criu"), KFD_PRIVILEGED_CRIU);
        assert_string_equal(kfd_privileged_mode_to_string(KFD_PRIVILEGED_DEBUG), "debug");
        assert_int_equal(kfd_target_open(KFD_PRIVILEGED_NO, PID, START, false, &sys, &t), -EINVAL);
        assert_int_equal(kfd_target_open(_KFD_PRIVILEGED_MODE_MAX, PID, START, false, &sys, &t), -EINVAL);
        assert_int_equal(t.pidfd, -EBADF);
}

static void test_open_refuses(void **state) {
        for (KfdPrivilegedMode mode = KFD_PRIVILEGED_CRIU; mode < _KFD_PRIVILEGED_MODE_MAX; mode++) {
                KfdTarget t = KFD_TARGET_NULL;
                (void) setup(NULL);
                assert_int_equal(kfd_target_open(mode, PID, START + 1, false, &sys, &t), -ESRCH);
                driver.has_device = false;
                assert_int_equal(kfd_target_open(mode, PID, START, false, &sys, &t), -ENODEV);
                driver.is_there = false;
                assert_int_equal(kfd_target_open(mode, PID, START, false, &sys, &t), -ESRCH);
                assert_int_equal(driver.n_seizes, 0);
                assert_false(driver.enabled); /* ENABLE would have made the process known to KFD */
        }
}

static void test_old_driver(void **state) {
        KfdTarget t = KFD_TARGET_NULL;

        driver.minor = KFD_API_DBG_TRAP - 1;
        assert_int_equal(kfd_target_open(KFD_PRIVILEGED_DEBUG, PID, START, false, &sys, &t), -ENOSYS);
        t = open_target(KFD_PRIVILEGED_CRIU);
        driver.no_criu = true;
        assert_int_equal(kfd_target_hold(&t), -ENOSYS);
        driver.no_criu = false;
        assert_int_equal(kfd_target_undo(&t), 0);
        close_target(&t);
}

/* --- holding --- */

static void test_hold_release(void **state) {
        for (KfdPrivilegedMode mode = KFD_PRIVILEGED_CRIU; mode < _KFD_PRIVILEGED_MODE_MAX; mode++) {
                (void) setup(NULL);
                driver.n_queues = QUEUES;
                for (uint32_t i = 0; i < QUEUES; i++)
                        driver.queues[i].type = i % 7 == 0 ? KFD_QUEUE_SDMA : KFD_QUEUE_COMPUTE_AQL,
                        driver.queues[i].new = true;
                KfdTarget t = open_target(mode);
                for (unsigned i = 0; i < 3; i++) {
                        assert_int_equal(kfd_target_hold(&t), 0);
                        assert_int_equal(t.state, KFD_TARGET_HELD);
                        assert_int_equal(kfd_target_hold(&t), 0); /* not counted */
                        assert_truth(&t);
                        assert_int_equal(n_suspended(),
                                        mode == KFD_PRIVILEGED_DEBUG ? QUEUES - QUEUES / 7 : 0);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_truth(&t);
                        assert_int_equal(driver.evictions, 0);
                        assert_int_equal(n_suspended(), 0);
                }
                assert_true(t.costs.hold_ns > 0 && t.costs.release_ns > 0);
                if (mode == KFD_PRIVILEGED_CRIU)
                        assert_int_equal(driver.n_pauses, 3);
                close_target(&t);
        }
}

/* Over fork it got its parent's device, and has opened its own later; or has not. */
static void test_inherited_device(void **state) {
        driver.inherits = true;
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);
        assert_int_equal(kfd_target_undo(&t), 0);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

static void test_new_queues(void **state) {
        KfdTarget t = open_target(KFD_PRIVILEGED_DEBUG);

        driver.n_queues = 1;
        driver.queues[0].type = KFD_QUEUE_COMPUTE;
        assert_int_equal(kfd_target_hold(&t), 0);
        driver.n_queues = 3;
        driver.queues[1].type = driver.queues[2].type = KFD_QUEUE_COMPUTE_AQL;
        driver.queues[1].new = driver.queues[2].new = true;
        assert_int_equal(n_suspended(), 1);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_int_equal(n_suspended(), 3);
        assert_truth(&t);
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_mes(void **state) {
        for (KfdPrivilegedMode mode = KFD_PRIVILEGED_CRIU; mode < _KFD_PRIVILEGED_MODE_MAX; mode++) {
                (void) setup(NULL);
                KfdTarget t = open_target(mode);
                driver.has_mes = true;
                assert_int_equal(kfd_target_hold(&t), -EOPNOTSUPP);
                driver.cannot_tell_mes = true;
                assert_int_equal(kfd_target_hold(&t), -EOPNOTSUPP);
                assert_int_equal(driver.n_seizes, 0);
                t.allow_mes = true;
                assert_int_equal(kfd_target_hold(&t), 0);
                assert_int_equal(kfd_target_release(&t), 0);
                close_target(&t);
        }
}

static void test_may_not_trace(void **state) {
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);

        driver.may_trace = false;
        assert_int_equal(kfd_target_hold(&t), -EPERM);
        assert_int_equal(driver.n_seizes,
                        2); /* nobody of ours to wait for: the second is for one that has just gone */
        assert_truth(&t);
        driver.may_trace = true;
        assert_int_equal(kfd_target_hold(&t), 0);

        /* A debugger has come in between: it stays held, and says so, until that has gone. */
        driver.may_trace = false;
        driver.tracer = 1;
        assert_int_equal(kfd_target_release(&t), -EPERM);
        assert_int_equal(t.state, KFD_TARGET_UNSURE);
        driver.may_trace = true;
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

/* The thread that traced before is seen for a while after it has said that it is done. */
static void test_former_tracer(void **state) {
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);

        assert_int_equal(kfd_target_hold(&t), 0);
        driver.busy_seizes = 5;
        assert_int_equal(kfd_target_release(&t), 0);
        assert_int_equal(kfd_target_hold(&t), 0);
        driver.busy_seizes = 5000;
        assert_int_equal(kfd_target_release(&t), -EPERM);
        assert_in_range(driver.busy_seizes, 1, 4990);
        driver.busy_seizes = 0;
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

/* --- criu: what fails --- */

static void test_criu_pause_fails(void **state) {
        static const int errors[] = {-EINTR, -EAGAIN, -ETIME, -EIO, -ENODEV, -EACCES, -ENOMEM};

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                for (unsigned late = 0; late < 2; late++) {
                        (void) setup(NULL);
                        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);
                        fail_next(OP_CRIU(KFD_CRIU_PROCESS_INFO), errors[i], late);
                        int r = kfd_target_hold(&t);
                        assert_int_equal(r, errors[i] == -EINTR || errors[i] == -EAGAIN ? 0 : errors[i]);
                        assert_int_equal(t.state, r < 0 ? KFD_TARGET_RUNNING : KFD_TARGET_HELD);
                        assert_truth(&t);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_truth(&t);
                        assert_int_equal(driver.evictions, 0);
                        close_target(&t);
                }
}

static void test_criu_undo_fails(void **state) {
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);

        fail_next(OP_CRIU(KFD_CRIU_PROCESS_INFO), -ETIME, true);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EIO, false);
        assert_int_equal(kfd_target_hold(&t), -ETIME);
        assert_int_equal(t.state, KFD_TARGET_UNSURE);

        /* The next hold begins with the undo: one eviction, not two. */
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EINTR, false);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EINTR, true);
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_criu_undo_of_others(void **state) {
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);

        assert_int_equal(kfd_target_undo(&t), 0); /* nothing there */
        driver.paused = true;
        driver.evictions = 1;
        assert_int_equal(kfd_target_undo(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

/* Thousands of cycles with failures anywhere: whenever it says so, it runs. */
static void test_criu_random(void **state) {
        static const int errors[] = {-EINTR, -EIO, -ETIME, -EACCES};
        unsigned seed = 7;
        KfdTarget t = open_target(KFD_PRIVILEGED_CRIU);

        for (unsigned i = 0; i < 2000; i++) {
                driver.n_failures = driver.next_failure = 0;
                for (unsigned k = (unsigned) rand_r(&seed) % 3; k > 0; k--)
                        fail_next(OP_CRIU(rand_r(&seed) % 2 ? KFD_CRIU_PROCESS_INFO : KFD_CRIU_UNPAUSE),
                                        errors[(unsigned) rand_r(&seed) % ELEMENTSOF(errors)],
                                        rand_r(&seed) % 2);
                (void) (rand_r(&seed) % 2 ? kfd_target_hold(&t) : kfd_target_release(&t));
                assert_in_range(driver.evictions, 0, 1);
                assert_truth(&t);
        }
        driver.n_failures = driver.next_failure = 0;
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

/* --- debug: what fails --- */

static KfdTarget open_debugged(void) {
        driver.n_queues = 4;
        for (uint32_t i = 0; i < 4; i++)
                driver.queues[i].type = KFD_QUEUE_COMPUTE_AQL;
        return open_target(KFD_PRIVILEGED_DEBUG);
}

static void test_debug_runtime_not_up(void **state) {
        KfdTarget t = open_debugged();

        driver.runtime_state = 0;
        assert_int_equal(kfd_target_hold(&t), -EAGAIN);
        assert_true(driver.runtime_told);
        assert_truth(&t);
        driver.runtime_state = 2; /* the GPU has its debugger */
        driver.runtime_told = false;
        assert_int_equal(kfd_target_hold(&t), -EBUSY);
        assert_false(driver.runtime_told);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_busy(void **state) {
        KfdTarget t = open_debugged();

        driver.others_debug = true;
        assert_int_equal(kfd_target_hold(&t), -EBUSY);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_each_fails(void **state) {
        static const KfdDbgTrapOp ops[] = {
                        KFD_DBG_TRAP_ENABLE, KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT, KFD_DBG_TRAP_SUSPEND_QUEUES};

        for (size_t i = 0; i < ELEMENTSOF(ops); i++) {
                (void) setup(NULL);
                KfdTarget t = open_debugged();
                fail_next(OP_DEBUG(ops[i]), -EIO, false);
                assert_int_equal(kfd_target_hold(&t), -EIO);
                assert_int_equal(t.state, KFD_TARGET_RUNNING);
                assert_truth(&t);
                fail_next(OP_DEBUG(ops[i]), -EINTR, false);
                assert_int_equal(kfd_target_hold(&t), 0);
                assert_int_equal(n_suspended(), 4);
                assert_int_equal(kfd_target_release(&t), 0);
                close_target(&t);
        }
}

static void test_debug_queue_fails(void **state) {
        KfdTarget t = open_debugged();

        driver.queues[2].broken = true;
        assert_int_equal(kfd_target_hold(&t), -ETIME);
        assert_int_equal(n_suspended(), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_disable_fails(void **state) {
        KfdTarget t = open_debugged();

        assert_int_equal(kfd_target_hold(&t), 0);
        fail_next(OP_DEBUG(KFD_DBG_TRAP_DISABLE), -EIO, false);
        assert_int_equal(kfd_target_release(&t), -EIO);
        assert_int_equal(t.state, KFD_TARGET_UNSURE);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        driver.may_trace = false; /* DISABLE needs no tracing */
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_some(void **state) {
        KfdTarget t = open_debugged();
        uint32_t ids[] = {1, 3, 9};

        driver.queues[1].new = true;
        assert_int_equal(kfd_target_suspend(&t, ids, 3), 2);
        assert_int_equal(ids[2], 9 | KFD_DBG_QUEUE_INVALID);
        assert_true(driver.queues[1].suspended && driver.queues[3].suspended && n_suspended() == 2);
        assert_true(kfd_debug_is_suspended(&t, 3) && !kfd_debug_is_suspended(&t, 0));
        assert_truth(&t);
        assert_int_equal(kfd_target_resume(&t, ids, 1), 1);
        assert_truth(&t);
        assert_int_equal(n_suspended(), 1);
        assert_int_equal(kfd_target_resume(&t, ids + 1, 1), 1);
        assert_false(driver.enabled); /* nothing is left to be enabled for */
        assert_int_equal(kfd_target_resume(&t, ids + 1, 1), 0);
        assert_truth(&t);
        close_target(&t);

        t = open_target(KFD_PRIVILEGED_CRIU);
        assert_int_equal(kfd_target_suspend(&t, ids, 1), -EOPNOTSUPP);
        assert_int_equal(kfd_target_resume(&t, ids, 1), -EOPNOTSUPP);
        close_target(&t);
}

static void test_gone(void **state) {
        for (KfdPrivilegedMode mode = KFD_PRIVILEGED_CRIU; mode < _KFD_PRIVILEGED_MODE_MAX; mode++) {
                (void) setup(NULL);
                KfdTarget t = open_target(mode);
                driver.is_there = false;
                assert_int_equal(kfd_target_hold(&t), -ESRCH);
                assert_int_equal(t.state, KFD_TARGET_RUNNING);
                close_target(&t);
        }
}

static void test_explain(void **state) {
        static const int errors[] = {-ESRCH, -ENODEV, -ENOSYS, -EPERM, -EACCES, -EOPNOTSUPP, -EAGAIN, -EBUSY,
                        -EIO, -ETIME, -EROFS};

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                assert_string_not_equal(kfd_privileged_explain(errors[i]), strerror(-errors[i]));
        assert_string_equal(kfd_privileged_explain(-EDOM), strerror(EDOM));
        assert_non_null(kfd_privileged_explain(0));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup(test_modes, setup),
                        cmocka_unit_test_setup(test_open_refuses, setup),
                        cmocka_unit_test_setup(test_old_driver, setup),
                        cmocka_unit_test_setup(test_hold_release, setup),
                        cmocka_unit_test_setup(test_inherited_device, setup),
                        cmocka_unit_test_setup(test_new_queues, setup),
                        cmocka_unit_test_setup(test_mes, setup),
                        cmocka_unit_test_setup(test_may_not_trace, setup),
                        cmocka_unit_test_setup(test_former_tracer, setup),
                        cmocka_unit_test_setup(test_criu_pause_fails, setup),
                        cmocka_unit_test_setup(test_criu_undo_fails, setup),
                        cmocka_unit_test_setup(test_criu_undo_of_others, setup),
                        cmocka_unit_test_setup(test_criu_random, setup),
                        cmocka_unit_test_setup(test_debug_runtime_not_up, setup),
                        cmocka_unit_test_setup(test_debug_busy, setup),
                        cmocka_unit_test_setup(test_debug_each_fails, setup),
                        cmocka_unit_test_setup(test_debug_queue_fails, setup),
                        cmocka_unit_test_setup(test_debug_disable_fails, setup),
                        cmocka_unit_test_setup(test_debug_some, setup),
                        cmocka_unit_test_setup(test_gone, setup),
                        cmocka_unit_test_setup(test_explain, setup),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
