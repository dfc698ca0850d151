/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched_preempt_*(): other processes' KFD queues, for callers that schedule by themselves
 *
 * An object keeps one target for each process that it suspended, until that process is resumed as a whole or has ended.
 */

#include <pthread.h>

#include "common/macro.h"
#include "common/process.h"
#include "hal/kfd-criu.h"
#include "hal/kfd-debug.h"
#include "hal/kfd-privileged.h"
#include "hal/kfd-proc.h"
#include "hal/kfd-target-sys.h"
#include "include/xsched/preempt.h"

/* NOLINTBEGIN(misc-redundant-expression): today they are the same */
_Static_assert(XSCHED_PREEMPT_QUEUE_ERROR == KFD_DBG_QUEUE_ERROR, "bits of ids");
_Static_assert(XSCHED_PREEMPT_QUEUE_INVALID == KFD_DBG_QUEUE_INVALID, "bits of ids");
/* NOLINTEND(misc-redundant-expression) */

typedef struct PreemptTarget PreemptTarget;

struct PreemptTarget {
        KfdTarget kfd;
        PreemptTarget *next;
};

struct XschedPreempt {
        pthread_mutex_t lock;
        pid_t owner;
        PrivilegedMode mode;
        bool allow_mes;
        PreemptTarget *targets;
};

_public_
int xsched_preempt_init(int mode, uint32_t flags, XschedPreempt **ret) {
        PrivilegedMode m = mode == XSCHED_PREEMPT_DEBUG ? PRIVILEGED_DEBUG
                        : mode == XSCHED_PREEMPT_CRIU   ? PRIVILEGED_CRIU
                                                        : PRIVILEGED_NO;

        if (!ret || m == PRIVILEGED_NO || (flags & ~XSCHED_PREEMPT_ALLOW_MES) != 0)
                return -EINVAL;
        XschedPreempt *p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        *p = (XschedPreempt){.owner = getpid(), .mode = m, .allow_mes = flags & XSCHED_PREEMPT_ALLOW_MES};
        (void) pthread_mutex_init(&p->lock, NULL);
        *ret = p;
        return 0;
}

static void target_drop(XschedPreempt *p, PreemptTarget *t) {
        for (PreemptTarget **at = &p->targets; *at; at = &(*at)->next)
                if (*at == t) {
                        *at = t->next;
                        break;
                }
        kfd_target_done(&t->kfd);
        free(t);
}

_public_
XschedPreempt *xsched_preempt_free(XschedPreempt *p) {
        PROTECT_ERRNO;

        /* After fork() the object belongs to the parent. */
        if (!p || p->owner != getpid())
                return NULL;
        while (p->targets)
                target_drop(p, p->targets);
        (void) pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
}

/* The process of the target may have ended, and its pid may be reused. */
static PreemptTarget *target_find(XschedPreempt *p, pid_t pid) {
        PreemptTarget *t = p->targets;

        while (t && t->kfd.pid != pid)
                t = t->next;
        if (!t || pidfd_is_alive(t->kfd.pidfd) > 0)
                return t;
        target_drop(p, t);
        return NULL;
}

static int target_get(XschedPreempt *p, pid_t pid, PreemptTarget **ret) {
        PreemptTarget *t = target_find(p, pid);

        if (!t) {
                t = calloc(1, sizeof(*t));
                if (!t)
                        return -ENOMEM;
                int r = kfd_target_open(p->mode, pid, 0, p->allow_mes, &kfd_target_sys, &t->kfd);
                if (r < 0) {
                        free(t);
                        return r;
                }
                t->next = p->targets;
                p->targets = t;
        }
        *ret = t;
        return 0;
}

/* Drops a target that holds nothing: it occupies the process's debugger slot and an fd of ours. */
static void target_put(XschedPreempt *p, PreemptTarget *t) {
        if (t->kfd.state == TARGET_RUNNING && !t->kfd.enabled)
                target_drop(p, t);
}

static bool is_all(const uint32_t *queues, uint32_t n) {
        return !queues && n == 0;
}

static int suspend_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n) {
        PreemptTarget *t;

        int r = target_get(p, pid, &t);
        if (r < 0)
                return r;
        r = is_all(queues, n) ? kfd_target_hold(&t->kfd) : kfd_target_suspend(&t->kfd, queues, n);
        target_put(p, t);
        return r;
}

static int resume_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n) {
        PreemptTarget *t;

        int r = target_get(p, pid, &t);
        if (r < 0)
                return r;
        if (!is_all(queues, n))
                r = kfd_target_resume(&t->kfd, queues, n);
        else
                r = kfd_target_undo(&t->kfd);
        target_put(p, t);
        return r;
}

static int call(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n,
                int (*f)(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n)) {
        PROTECT_ERRNO;

        if (!p || pid <= 0 || (n > 0) != (queues != NULL))
                return -EINVAL;
        if (p->owner != getpid())
                return -EPERM;
        (void) pthread_mutex_lock(&p->lock);
        int r = f(p, pid, queues, n);
        (void) pthread_mutex_unlock(&p->lock);
        return r;
}

_public_
int xsched_preempt_suspend_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n) {
        return call(p, pid, queues, n, suspend_queues);
}

_public_
int xsched_preempt_resume_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n) {
        return call(p, pid, queues, n, resume_queues);
}

/* --- what there is --- */

static uint32_t queue_type(uint32_t type) {
        const char *name = kfd_proc_type_to_string(type);

        return streq(name, "compute")         ? XSCHED_PREEMPT_COMPUTE
                        : streq(name, "sdma") ? XSCHED_PREEMPT_SDMA
                                              : XSCHED_PREEMPT_OTHER;
}

static bool is_suspended(const PreemptTarget *t, const KfdProcQueue *q) {
        if (!t)
                return false;
        return t->kfd.ops == &kfd_criu_ops ? t->kfd.state == TARGET_HELD : kfd_debug_is_suspended(&t->kfd, q->id);
}

_public_
int xsched_preempt_query_queues(XschedPreempt *p, pid_t pid, XschedPreemptQueue *queues, uint32_t n) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues all = {0};
        PROTECT_ERRNO;

        if (!p || pid <= 0 || (n > 0 && !queues))
                return -EINVAL;
        int r = kfd_proc_read_queues("", pid, &all);
        if (r < 0)
                return r;
        (void) pthread_mutex_lock(&p->lock);
        const PreemptTarget *t = p->owner == getpid() ? target_find(p, pid) : NULL;
        for (uint32_t i = 0; i < MIN((size_t) n, all.n); i++)
                queues[i] = (XschedPreemptQueue){
                                .id = all.queues[i].id,
                                .gpu_id = all.queues[i].gpu_id,
                                .type = queue_type(all.queues[i].type),
                                .suspended = is_suspended(t, all.queues + i),
                                .ring_size = all.queues[i].ring_size,
                };
        (void) pthread_mutex_unlock(&p->lock);
        return (int) all.n;
}

_public_
const char *xsched_preempt_strerror(int error) {
        return kfd_privileged_explain(error);
}
