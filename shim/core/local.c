/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Local gates
 */

#include "shim/core/local.h"
#include "common/macro.h"
#include "shim/core/client.h"
#include "shim/core/queue.h"

#define LOCAL_ENDING UINT32_MAX

struct QueueLocal {
        _Atomic uint32_t refs; /* one of the queue and one per running call; 0: free; or LOCAL_ENDING */
        XschedLocal ops;       /* constant while a thread can find it */
        QueueLocal *all_next;
};

/* All records ever made; free ones are reused. */
static _Atomic(QueueLocal *) all_locals;

static bool local_try_ref(QueueLocal *l) {
        uint32_t refs = atomic_load_explicit(&l->refs, memory_order_relaxed);

        do {
                if (refs == 0 || refs == LOCAL_ENDING)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(
                        &l->refs, &refs, refs + 1, memory_order_seq_cst, memory_order_relaxed));
        return true;
}

static void local_unref(QueueLocal *l) {
        uint32_t refs = atomic_load_explicit(&l->refs, memory_order_relaxed), left;

        do
                left = refs == 1 ? LOCAL_ENDING : refs - 1;
        while (!atomic_compare_exchange_weak_explicit(
                        &l->refs, &refs, left, memory_order_seq_cst, memory_order_relaxed));
        if (left != LOCAL_ENDING)
                return;
        const XschedLocal ops = l->ops;
        atomic_store_explicit(&l->refs, 0, memory_order_seq_cst);
        if (ops.release)
                ops.release(ops.userdata);
}

static QueueLocal *local_get(XschedQueue *q) {
        QueueLocal *l;

        while ((l = atomic_load_explicit(&q->local, memory_order_seq_cst))) {
                if (!local_try_ref(l))
                        continue; /* the local gate is being removed */
                if (atomic_load_explicit(&q->local, memory_order_seq_cst) == l)
                        return l;
                local_unref(l);
        }
        return NULL;
}

bool local_begin(XschedQueue *q, bool wait) {
        PROTECT_ERRNO;
        QueueLocal *l = local_get(q);

        if (!l)
                return false;
        l->ops.begin(l->ops.userdata, wait);
        local_unref(l);
        return true;
}

void local_complete(XschedQueue *q, uint32_t n) {
        PROTECT_ERRNO;
        QueueLocal *l = local_get(q);

        if (!l)
                return;
        l->ops.complete(l->ops.userdata, n);
        local_unref(l);
}

uint32_t local_limit(XschedQueue *q, uint32_t limit) {
        QueueLocal *l = local_get(q);

        if (!l)
                return limit;
        uint32_t own = l->ops.limit(l->ops.userdata);
        local_unref(l);
        return limit == 0 || (own != 0 && own < limit) ? own : limit;
}

bool local_is_held(XschedQueue *q) {
        QueueLocal *l = local_get(q);

        if (!l)
                return false;
        bool held = l->ops.held(l->ops.userdata) != 0;
        local_unref(l);
        return held;
}

/* Takes a free record with one reference, or makes a new one. */
static QueueLocal *local_take(void) {
        for (QueueLocal *l = atomic_load_explicit(&all_locals, memory_order_acquire); l; l = l->all_next) {
                uint32_t none = 0;
                if (atomic_compare_exchange_strong(&l->refs, &none, 1))
                        return l;
        }

        QueueLocal *l = calloc(1, sizeof(QueueLocal));
        if (!l)
                return NULL;
        atomic_store(&l->refs, 1);
        l->all_next = atomic_load_explicit(&all_locals, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(
                        &all_locals, &l->all_next, l, memory_order_seq_cst, memory_order_relaxed))
                ;
        return l;
}

void local_drop(XschedQueue *q) {
        QueueLocal *l = atomic_exchange_explicit(&q->local, NULL, memory_order_seq_cst);

        if (l)
                local_unref(l);
}

/* In the child the threads that were inside a call are gone: their references stay, and the record with them. */
void local_forget_all(XschedQueue *q) {
        atomic_store(&q->local, NULL);
}

_public_
int xsched_queue_set_local(XschedQueue *q, const XschedLocal *local) {
        PROTECT_ERRNO;
        QueueLocal *none = NULL;

        if (!q)
                return -EINVAL;
        if (!local) {
                QueueLocal *l = atomic_exchange_explicit(&q->local, NULL, memory_order_seq_cst);
                if (!l)
                        return -ENOENT;
                local_unref(l);
                return 0;
        }
        XschedLocal known = {};
        if (local->size < sizeof(known))
                return -EINVAL;
        memcpy(&known, local, sizeof(known));
        if (!known.begin || !known.complete || !known.limit || !known.held)
                return -EINVAL;

        QueueLocal *l = local_take();
        if (!l)
                return -ENOMEM;
        l->ops = known;
        if (atomic_compare_exchange_strong(&q->local, &none, l))
                return 0;
        l->ops.release = NULL;
        local_unref(l);
        return -EBUSY;
}
