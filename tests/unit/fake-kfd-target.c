/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Another process's queues, and a driver that the test plays
 */

#include <sys/syscall.h>

#include "fake-kfd-target.h"
#include "hal/kfd-criu.h"

Driver driver;

int driver_reset(void **state) {
        driver = (struct Driver){.is_there = true,
                        .has_device = true,
                        .may_trace = true,
                        .runtime_state = 1,
                        .minor = 17,
                        .clock = 1};
        return 0;
}

void fail_next(unsigned op, int error, bool late) {
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

static int fake_is_split(pid_t pid) {
        return driver.has_device ? driver.is_split : -ESRCH;
}

static pid_t self(void) {
        return (pid_t) syscall(SYS_gettid);
}

static int fake_seize(pid_t pid) {
        assert_int_not_equal(self(), getpid()); /* the caller's thread would not end by it */
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

const KfdTargetSys fake_target_sys = {
                .open_process = fake_open_process,
                .open_device = fake_open_device,
                .open_own = fake_open_own,
                .open_events = fake_open_events,
                .has_mes = fake_has_mes,
                .is_split = fake_is_split,
                .seize = fake_seize,
                .tracer = fake_tracer,
                .is_own_thread = fake_is_own_thread,
                .ioctl = fake_ioctl,
                .now = fake_now,
                .nap = fake_nap,
};

KfdTarget open_target(PrivilegedMode mode) {
        KfdTarget t = KFD_TARGET_NULL;

        assert_int_equal(kfd_target_open(mode, PID, START, false, &fake_target_sys, &t), 0);
        return t;
}

/* Our fds are numbers only. */
void close_target(KfdTarget *t) {
        assert_int_equal(t->state, TARGET_RUNNING);
        t->device = t->events = t->pidfd = -EBADF;
        kfd_target_done(t);
}

unsigned n_suspended(void) {
        unsigned n = 0;
        for (uint32_t i = 0; i < driver.n_queues; i++)
                n += driver.queues[i].suspended;
        return n;
}

void assert_truth(const KfdTarget *t) {
        if (t->state == TARGET_UNSURE)
                return;
        assert_int_equal(driver.evictions, driver.paused);
        assert_int_equal(driver.enabled, t->enabled);
        assert_int_equal(n_suspended(), t->n_suspended);
        if (t->ops == &kfd_criu_ops)
                assert_int_equal(driver.evictions, t->state == TARGET_HELD);
        else if (t->state == TARGET_RUNNING)
                assert_false(driver.enabled);
}
