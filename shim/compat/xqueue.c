/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The public calls on XQueues
 */

#include "hint.h"
#include "shim/compat/scheduler.h"
#include "shim/compat/side.h"
#include "shim/compat/worker.h"

#define DEFAULT_THRESHOLD 16
#define DEFAULT_BATCH     8

static bool is_level(int64_t level) {
        return level > kPreemptLevelUnknown && level < kPreemptLevelMax;
}

/* Finds the queue that a layer has for the runtime's queue. If no layer is loaded, makes one for commands. Without any,
 * xschedd does not know the XQueue. */
static void find_queue(XQueue *x) {
        const HwQueue *h = x->hwq;
        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = h->device,
                        .device_name = h->name,
                        .backend = h->platform->backend,
                        .label = "xqueue",
        };

        if (h->platform->announce)
                h->platform->announce(h);
        x->queue = xsched_queue_find(h->platform->backend, h->handle);
        x->is_layers = x->queue;
        if (!x->queue && xsched_queue_new(&info, &x->queue) < 0)
                x->queue = NULL;
}

/* Takes over the reference of `h`. */
static XQueue *xqueue_alloc(HwQueue *h, int64_t level) {
        XQueue *x = calloc(1, sizeof(XQueue));

        if (!x) {
                compat_unref_hwq(h);
                return NULL;
        }
        x->refs = 1;
        x->hwq = h;
        x->level = level;
        x->threshold = DEFAULT_THRESHOLD;
        x->batch_size = DEFAULT_BATCH;
        x->hints = hint_defaults();
        (void) pthread_cond_init(&x->work, NULL);
        (void) pthread_cond_init(&x->done, NULL);
        find_queue(x);
        return x;
}

/* A layer asks the XQueue's gate for as long as it is set, which has a reference to the side. */
static int gate_set(XQueue *x) {
        if (!x->is_layers)
                return 0;
        const XschedLocal local = side_local(x->side);
        int r = xsched_queue_set_local(x->queue, &local);
        if (r < 0)
                side_release(x->side);
        return r;
}

static void gate_unset(XQueue *x) {
        if (x->is_layers)
                (void) xsched_queue_set_local(x->queue, NULL);
}

/* With the lock, which is released while the last commands are launched. */
static void xqueue_withdraw(XQueue *x) {
        compat_remove(x);
        x->hwq->xq = NULL;
        scheduler_remove(x);
        worker_end(x);
        hint_withdraw(x);
        side_escape(x->side);
        x->side->xq = NULL;
}

/* With the lock. */
static int xqueue_publish(XQueue *x) {
        if (compat_find_hwq(x->hwq->handle) != x->hwq)
                return -ENOENT; /* it was destroyed meanwhile */
        int r = side_new(x, &x->side);
        if (r < 0)
                return r;
        r = gate_set(x);
        if (r >= 0) {
                r = compat_add(x);
                if (r < 0)
                        gate_unset(x);
        }
        if (r < 0) {
                x->side->xq = NULL; /* an edge of the slot's former XQueue may be left */
                return r;
        }
        x->hwq->xq = x;
        r = scheduler_add(x);
        if (r < 0) {
                xqueue_withdraw(x);
                gate_unset(x);
        } else if (scheduler_type() == kSchedulerGlobal)
                hint_send(x);
        return r;
}

/* With the lock, which is released meanwhile: until then the former XQueue launches and has the gate. Its own commands
 * cannot wait for that. */
static int await_left(HwQueue *h) {
        if (h->leaving && h->leaving == compat_launching)
                return -EBUSY;
        while (h->leaving)
                compat_sleep(&h->left);
        return 0;
}

/* Makes the XQueue. If two threads do so for one queue at once, the first one's counts. */
static XResult make(HwQueue *h, int64_t level, XQueueHandle *ret) {
        int r;

        (void) h->platform->finish(h);
        XQueue *x = xqueue_alloc(h, level);
        if (!x)
                return kXSchedErrorHardware;
        compat_lock();
        r = await_left(h);
        XQueue *known = h->xq;
        if (r >= 0 && !known)
                r = xqueue_publish(x);
        if (r >= 0)
                *ret = known ? known->handle : x->handle;
        bool ours = !known && r >= 0;
        compat_unlock();
        if (ours)
                compat_unref(x);
        else
                compat_free(x);
        return compat_error(r);
}

_public_
XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags) {
        PROTECT_ERRNO;

        if (!xq || !is_level(level))
                return kXSchedErrorInvalidValue;
        if (flags & kQueueCreateFlagBlockingSubmit)
                return kXSchedErrorNotSupported;
        if (flags != kQueueCreateFlagNone)
                return kXSchedErrorInvalidValue;
        HwQueue *h = compat_get_hwq(hwq);
        return h ? make(h, level, xq) : kXSchedErrorNotFound;
}

_public_
XResult XQueueDestroy(XQueueHandle xq) {
        CALL_WAITING(x, xq);
        compat_lock();
        if (x->hwq->xq != x) { /* another thread was faster */
                compat_unlock();
                return kXSchedErrorNotFound;
        }
        x->hwq->leaving = x;
        xqueue_withdraw(x);
        compat_unlock();
        gate_unset(x);
        compat_lock();
        x->hwq->leaving = NULL;
        (void) pthread_cond_broadcast(&x->hwq->left);
        compat_unlock();
        return kXSchedSuccess;
}

_public_
XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq) {
        PROTECT_ERRNO;

        if (!xq)
                return kXSchedErrorInvalidValue;
        COMPAT_LOCKED;
        XQueue *x = NULL;
        for (XQueue *i = compat_all(); i && !x; i = i->hh.next)
                x = i->hwq->handle == hwq ? i : NULL;
        if (!x)
                return kXSchedErrorNotFound;
        *xq = x->handle;
        return kXSchedSuccess;
}

_public_
XResult XQueueSetPreemptLevel(XQueueHandle xq, XPreemptLevel level) {
        if (!is_level(level))
                return kXSchedErrorInvalidValue;
        CALL(x, xq);
        return x->level == (int64_t) level ? kXSchedSuccess : kXSchedErrorNotSupported;
}

_public_
XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size) {
        CALL_LOCKED(x, xq);
        int64_t t = threshold > 0 ? threshold : x->threshold, b = batch_size > 0 ? batch_size : x->batch_size;
        if (b > t)
                return kXSchedErrorInvalidValue;
        x->threshold = t;
        x->batch_size = b;
        x->bounded = x->bounded || threshold > 0;
        return hint_changed(x);
}

/* --- waiting --- */

_public_
XResult XQueueWait(XQueueHandle xq, HwCommandHandle hw_cmd) {
        CALL_WAITING(x, xq);
        COMPAT_LOCKED;
        const Command *c = compat_find_command(hw_cmd);
        if (!c && !compat_was_command(hw_cmd))
                return kXSchedErrorNotFound;
        if (c && c->xq != x)
                return kXSchedErrorNotAllowed;
        worker_wait(x, hw_cmd);
        return worker_result(x, hw_cmd);
}

static XResult wait_all(XQueue *x) {
        compat_lock();
        worker_wait_all(x);
        XResult error = TAKE_GENERIC(x->first_error, kXSchedSuccess);
        compat_unlock();
        /* Waits for launches by the runtime's own functions. */
        if (x->is_layers && x->hwq->platform->finish(x->hwq) < 0 && error == kXSchedSuccess)
                error = kXSchedErrorHardware;
        return error;
}

_public_
XResult XQueueWaitAll(XQueueHandle xq) {
        CALL_WAITING(x, xq);
        return wait_all(x);
}

_public_
XResult XQueueQuery(XQueueHandle xq, XQueueState *state) {
        if (!state)
                return kXSchedErrorInvalidValue;
        CALL(x, xq);
        /* The layer may not know yet of launches in the last millisecond. */
        if (x->is_layers)
                xsched_queue_look(x->queue);
        *state = side_outstanding(x->side) != 0 ? kQueueStateReady : kQueueStateIdle;
        return kXSchedSuccess;
}

_public_
XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count) {
        if (!count)
                return kXSchedErrorInvalidValue;
        CALL(x, xq);
        *count = (int64_t) atomic_load(&x->side->n_launches);
        return kXSchedSuccess;
}

/* --- suspending --- */

static void wait_idle(XQueue *x) {
        if (x->is_layers) /* no other call may report this error */
                (void) wait_all(x);
        else
                side_wait_idle(x->side);
}

static bool is_suspended(XQueue *x) {
        COMPAT_LOCKED;
        return x->suspended;
}

static XResult suspend(XQueue *x) {
        COMPAT_LOCKED;
        if (x->hwq->xq != x)
                return kXSchedErrorNotFound; /* destroyed meanwhile */
        x->suspended = true;
        scheduler_changed(x);
        return kXSchedSuccess;
}

_public_
XResult XQueueSuspend(XQueueHandle xq, int64_t flags) {
        CALL(x, xq);
        if (flags & ~(int64_t) (kQueueSuspendFlagSyncHwQueue | kQueueSuspendFlagWaitAll | kQueueSuspendFlagWaitIdle) &&
                        flags != kQueueSuspendFlagMaskAll)
                return kXSchedErrorInvalidValue;
        if (flags != 0 && x == compat_launching)
                return kXSchedErrorNotAllowed;
        /* What is suspended already would never come to its end. */
        if (flags & (kQueueSuspendFlagWaitIdle | kQueueSuspendFlagWaitAll) && !is_suspended(x)) {
                if (flags & kQueueSuspendFlagWaitIdle)
                        wait_idle(x);
                else
                        (void) wait_all(x);
        }
        XResult r = suspend(x);
        if (r == kXSchedSuccess && flags & kQueueSuspendFlagSyncHwQueue && x->hwq->platform->finish(x->hwq) < 0)
                r = kXSchedErrorHardware;
        return r;
}

_public_
XResult XQueueResume(XQueueHandle xq, int64_t flags) {
        CALL_LOCKED(x, xq);
        if (flags & ~(int64_t) kQueueResumeFlagDropCommands && flags != kQueueResumeFlagMaskAll)
                return kXSchedErrorInvalidValue;
        if (!x->suspended)
                return kXSchedSuccess;
        if (flags & kQueueResumeFlagDropCommands)
                worker_drop(x);
        x->suspended = false;
        scheduler_changed(x);
        return kXSchedSuccess;
}
