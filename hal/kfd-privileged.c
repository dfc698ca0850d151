/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD: targets, and the thread that seizes them
 */

#include <semaphore.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "hal/kfd-privileged.h"
#include "kfd-criu.h"
#include "kfd-debug.h"

#define STACK_SIZE ((size_t) 64 * 1024)

const char *kfd_privileged_explain(int error) {
        switch (error) {
        case -ESRCH:
                return "the process has ended";
        case -ENODEV:
                return "the process has no " KFD_DEVICE_PATH " open, or there is no GPU";
        case -ENOSYS:
        case -ENOTTY:
                return "the driver is too old for this";
        case -EPERM:
                return "the process may not be traced: the capability CAP_SYS_PTRACE is missing, or somebody traces it "
                       "already";
        case -EACCES:
                return "the capability CAP_CHECKPOINT_RESTORE is missing, or the device may not be opened";
        case -EOPNOTSUPP:
                return "a GPU of the process is scheduled by MES, or nothing tells that none is";
        case -EMLINK:
                return "the process has more than one context of KFD, and only one of them would be held";
        case -EAGAIN:
                return "the runtime of the process is not up yet";
        case -EBUSY:
                return "the process, or its GPU, is being debugged";
        case -EIO:
        case -ETIME:
                return "the GPU did not stop";
        case -ETIMEDOUT:
                return "the driver does not answer";
        case -EROFS:
        case -ENOSPC:
                return "what would be done cannot be written down first";
        default:
                return error < 0 ? strerror(-error) : "no error";
        }
}

/* --- tracing --- */

typedef struct Seized {
        KfdTarget *target;
        int (*call)(KfdTarget *t);
        int result;
        sem_t done;
} Seized;

/* Our last tracer thread may still be exiting, and the process has its tracer until then. EPERM is final after two
 * looks without a tracer of ours. */
static int seize(KfdTarget *t) {
        uint64_t until = ns_add(t->sys->now(), KFD_TARGET_SEIZE_NS);
        unsigned n_others = 0;
        pid_t tracer;

        for (;;) {
                int r = t->sys->seize(t->pid);
                if (r != -EPERM)
                        return r;
                int q = t->sys->tracer(t->pid, &tracer);
                if (q < 0)
                        return q;
                n_others = tracer != 0 && t->sys->is_own_thread(tracer) ? 0 : n_others + 1;
                if (n_others == 2 || t->sys->now() >= until)
                        return r;
                t->sys->nap();
        }
}

static void *seized_main(void *userdata) {
        Seized *s = userdata;

        s->result = seize(s->target);
        if (s->result >= 0)
                s->result = s->call(s->target);
        (void) sem_post(&s->done);
        return NULL;
}

static int seized(KfdTarget *t, int (*call)(KfdTarget *t)) {
        Seized s = {.target = t, .call = call};

        if (t->pid == getpid())
                return call(t);
        if (sem_init(&s.done, 0, 0) < 0)
                return negative_errno();
        int r = thread_start(seized_main, &s, STACK_SIZE);
        if (r >= 0) {
                while (sem_wait(&s.done) < 0)
                        ;
                r = s.result;
        }
        (void) sem_destroy(&s.done);
        return r;
}

/* --- targets --- */

int kfd_target_open(PrivilegedMode mode, pid_t pid, uint64_t start_time, bool allow_mes, const KfdTargetSys *sys,
                KfdTarget *ret) {
        static const KfdPrivilegedOps *const ops[_PRIVILEGED_MODE_MAX] = {
                        [PRIVILEGED_CRIU] = &kfd_criu_ops,
                        [PRIVILEGED_DEBUG] = &kfd_debug_ops,
        };
        _cleanup_(kfd_target_done)
        KfdTarget t = KFD_TARGET_NULL;

        if ((size_t) mode >= ELEMENTSOF(ops) || !ops[mode])
                return -EINVAL;
        t.ops = ops[mode];
        t.sys = sys;
        t.pid = pid;
        t.allow_mes = allow_mes;
        t.pidfd = sys->open_process(pid, &t.start_time);
        if (t.pidfd < 0)
                return t.pidfd;
        if (start_time != 0 && start_time != t.start_time)
                return -ESRCH;
        int r = t.ops->open(&t);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(t, KFD_TARGET_NULL);
        return 0;
}

void kfd_target_done(KfdTarget *t) {
        if (t->ops)
                (void) kfd_target_release(t);
        safe_close(t->device);
        safe_close(t->events);
        safe_close(t->pidfd);
        free(t->suspended);
        *t = KFD_TARGET_NULL;
}

/* A process that sysfs does not list has one context, as in all kernels up to 6.x. */
static int check(const KfdTarget *t) {
        if (t->sys->is_split(t->pid) > 0)
                return -EMLINK;
        int r = t->allow_mes ? 0 : t->sys->has_mes(t->pid);
        return r == 0 || r == -ESRCH ? r : -EOPNOTSUPP;
}

static void learn(uint64_t *estimate, const KfdTarget *t, uint64_t since) {
        *estimate = hal_learn_cost(*estimate, ns_sub(t->sys->now(), since));
}

int kfd_target_undo(KfdTarget *t) {
        int r = t->ops->traces_undo ? seized(t, t->ops->undo) : t->ops->undo(t);

        t->state = r >= 0 ? TARGET_RUNNING : TARGET_UNSURE;
        return r;
}

static int settle(KfdTarget *t) {
        return t->state == TARGET_UNSURE ? kfd_target_undo(t) : 0;
}

int kfd_target_hold(KfdTarget *t) {
        if (t->state == TARGET_HELD && t->ops->inherit == HAL_INHERIT_HOLD)
                return 0;
        int r = settle(t);
        if (r < 0)
                return r;
        r = check(t);
        if (r < 0)
                return r;

        uint64_t since = t->sys->now();
        bool first = t->state != TARGET_HELD;
        r = seized(t, t->ops->hold);
        if (r >= 0 && first)
                learn(&t->costs.hold_ns, t, since);
        return r;
}

int kfd_target_release(KfdTarget *t) {
        if (t->state == TARGET_RUNNING && !t->enabled)
                return 0;
        uint64_t since = t->sys->now();
        bool first = t->state == TARGET_HELD;
        int r = kfd_target_undo(t);
        if (r >= 0 && first)
                learn(&t->costs.release_ns, t, since);
        return r;
}

static int with_ids(KfdTarget *t, uint32_t *ids, uint32_t n, int (*call)(KfdTarget *t)) {
        if (t->ops != &kfd_debug_ops)
                return -EOPNOTSUPP;
        t->ids = ids;
        t->n_ids = n;
        int r = seized(t, call);
        t->ids = NULL;
        t->n_ids = 0;
        return r;
}

int kfd_target_suspend(KfdTarget *t, uint32_t *ids, uint32_t n) {
        int r = settle(t);
        if (r >= 0)
                r = check(t);
        return r < 0 ? r : with_ids(t, ids, n, kfd_debug_suspend);
}

int kfd_target_resume(KfdTarget *t, uint32_t *ids, uint32_t n) {
        return t->enabled || t->ops != &kfd_debug_ops ? with_ids(t, ids, n, kfd_debug_resume) : 0;
}
