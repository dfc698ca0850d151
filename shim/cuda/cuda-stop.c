/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When the process's channels are stopped: see cuda-stop.h
 */

#include "cuda-stop.h"
#include "shim/cuda/cuda-stop.h"

#include <stdatomic.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "shim/cuda/cuda-rm.h"

#define END_WAIT_NS (100 * NSEC_PER_MSEC)

typedef struct Member {
        XschedQueue *xq;
        CudaGpu *gpu;
        bool known; /* the service has given a verdict */
        bool held;
        struct Member *next;
} Member;

static Member *members; /* under cuda_rm_lock() */
static bool ended;

#define RM_LOCKED()                                                                                                    \
        _cleanup_(cuda_rm_unlockp)                                                                                     \
        bool _locked = cuda_rm_lock();                                                                                 \
        if (!_locked)

static bool all_are_held(const CudaGpu *g) {
        bool any = false;

        for (const Member *m = members; m; m = m->next) {
                if (m->gpu != g || !m->known)
                        continue;
                if (!m->held)
                        return false;
                any = true;
        }
        return any && !ended;
}

/* A release is tried whatever state is on record. */
static int gpu_follow(CudaGpu *g) {
        bool stop = all_are_held(g);

        return stop && g->stopped ? 0 : cuda_rm_stop(g, stop);
}

/* Only the control thread stops channels, and it makes no call of libcuda's afterwards. Another thread could be in a
 * call that waits for what was just stopped, and no thread would enable the channels again. */
static void gpu_may_run(CudaGpu *g) {
        if (!all_are_held(g))
                (void) cuda_rm_stop(g, false);
}

static Member *member_find(const XschedQueue *xq) {
        for (Member *m = members; m; m = m->next)
                if (m->xq == xq)
                        return m;
        return NULL;
}

/* One batch is of one device. On libxsched's control thread. */
static int stop_apply(XschedQueue *const *queues, void *const *unused, uint32_t n, int held) {
        CudaGpu *g = NULL;

        RM_LOCKED() return -EBUSY;
        for (uint32_t i = 0; i < n; i++) {
                Member *m = member_find(queues[i]);
                if (!m)
                        continue; /* it was dropped, and is not freed yet */
                m->known = true;
                m->held = held;
                g = m->gpu;
        }
        int r = g ? gpu_follow(g) : 0;
        if (r >= 0 || !held)
                return r;
        for (uint32_t i = 0; i < n; i++) {
                Member *m = member_find(queues[i]);
                if (m)
                        m->held = false;
        }
        return r;
}

/* A queue is known here before the control thread can ask for it. */
int cuda_stop_queue_new(XschedQueueInfo *info, XschedQueue **ret) {
        RM_LOCKED() return xsched_queue_new(info, ret);
        CudaGpu *g = cuda_rm_gpu(info->device);
        Member *m = g ? calloc(1, sizeof(Member)) : NULL;

        info->level = m ? LEVEL_INTERRUPT : LEVEL_GATE;
        info->apply = m ? stop_apply : NULL;
        int r = xsched_queue_new(info, ret);
        if (r < 0 || !m) {
                free(m);
                return r;
        }
        *m = (Member){.xq = *ret, .gpu = g, .next = members};
        members = m;
        return r;
}

void cuda_stop_leave(const XschedQueue *xq) {
        PROTECT_ERRNO;

        RM_LOCKED() return;
        for (Member **link = &members, *m; (m = *link); link = &m->next) {
                if (m->xq != xq)
                        continue;
                *link = m->next;
                CudaGpu *g = m->gpu;
                free(m);
                gpu_may_run(g);
                return;
        }
}

void cuda_stop_end(void) {
        PROTECT_ERRNO;

        _cleanup_(cuda_rm_unlockp)
        bool locked = cuda_rm_lock_within(END_WAIT_NS);
        if (!locked)
                return; /* its files are closed with it */
        ended = true;
        for (CudaGpu *g = cuda_rm_gpus(); g; g = g->next)
                (void) cuda_rm_stop(g, false);
}

void cuda_stop_lower(const CudaGpu *g) {
        for (const Member *m = members; m; m = m->next)
                if (m->gpu == g)
                        xsched_queue_lower_level(m->xq, LEVEL_GATE);
}

void cuda_stop_forget(void) {
        members = NULL;
        ended = false;
}
