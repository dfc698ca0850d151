/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * Every tracked launch stands in its queue's record with its event. One thread at a time, the harvester, asks the
 * runtime which have completed and removes those; whoever else comes meanwhile only leaves word to look once more. It
 * comes from four sides: the application has learned something itself (it finished, waited, read blocking), a launch
 * found too many in flight, a launch found no sentinel, or a sentinel fired (opencl-sentinel.h).
 *
 * Invariant: a launch in the record has an idle sentinel armed at it or before it, or a harvester is at work, which
 * arms one before it ends. A launch that is put in while neither is true becomes the harvester.
 *
 * No lock of ours is held around a native call, because callbacks come with the runtime's locks held; no native call
 * is made with an event that somebody else could release, because only the harvester removes.
 */

#include "shim/opencl/opencl-track.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-event.h"
#include "shim/opencl/opencl-guess.h"
#include "shim/opencl/opencl-sentinel.h"
#include "shim/opencl/opencl-time.h"

#define BATCH         32U
#define LAUNCH_ROUNDS 2U /* batches that a launch looks at: its cost must not grow with the queue */

bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t) {
        (void) pthread_mutex_lock(&q->lock);
        bool pushed = opencl_record_push(q, event, t), watched = q->idle;
        (void) pthread_mutex_unlock(&q->lock);

        if (!pushed)
                (void) opencl_next.clReleaseEvent(event);
        else if (!watched)
                opencl_harvest_some(q);
        return pushed;
}

/* --- harvest --- */

/* A part of the array, as it is asked about while the lock is not held. */
typedef struct Batch {
        OpenclTracked tracked[BATCH];
        OpenclEventStatus status[BATCH];
        size_t n, n_over;
        uint64_t known_seq;
        bool any_order; /* an event says nothing about those before it */
} Batch;

static void batch_fill(OpenclQueue *q, size_t skip, Batch *b) {
        b->any_order = !atomic_load(&q->in_order) || atomic_load(&q->multi_threaded);
        b->known_seq = b->any_order ? 0 : q->known_seq;
        b->n = MIN(opencl_record_n(q) - skip, (size_t) BATCH);
        b->n_over = 0;
        memcpy(b->tracked, q->tracked + q->head + skip, b->n * sizeof(OpenclTracked));
        memset(b->status, 0, sizeof(b->status));
}

static void batch_query(Batch *b) {
        for (size_t i = 0; i < b->n; i++) {
                bool last_known = i + 1 >= b->n || b->tracked[i + 1].seq > b->known_seq;

                /* The last one is asked all the same: whether it failed matters to its sentinel. */
                if (b->tracked[i].seq <= b->known_seq && !last_known)
                        b->status[i] = OPENCL_EVENT_COMPLETE;
                else
                        b->status[i] = opencl_event_status(b->tracked[i].event);
                if (b->status[i] == OPENCL_EVENT_PENDING && b->tracked[i].seq <= b->known_seq)
                        b->status[i] = OPENCL_EVENT_COMPLETE;
                if (b->status[i] != OPENCL_EVENT_PENDING)
                        b->n_over++;
                else if (!b->any_order)
                        return;
        }
}

static void batch_count(OpenclQueue *q, const Batch *b, OpenclFound *h) {
        for (size_t i = 0; i < b->n; i++) {
                const OpenclTracked *t = b->tracked + i;
                if (b->status[i] == OPENCL_EVENT_PENDING)
                        continue;
                q->done_seq = MAX(q->done_seq, t->seq);
                h->unsafe |= !t->safe || t->drain;
                if (!t->drain)
                        h->kind = h->n_done == 0 || h->kind == t->kind ? t->kind : 0;
                h->n_done += !t->drain;
                h->n_drains += t->drain;
                atomic_fetch_sub_explicit(&q->flying_ns, t->expected_ns, memory_order_relaxed);
                if (b->status[i] != OPENCL_EVENT_FAILED)
                        continue;
                opencl_time_give_up(q, t->event);
                if (q->idle && q->idle->seq == t->seq)
                        opencl_sentinel_give_up(&q->idle);
                if (q->wake && q->wake->seq == t->seq)
                        opencl_sentinel_give_up(&q->wake);
        }
}

/* Removes what is over. Only the harvester removes, so the entries are still where they were. */
static void batch_remove(OpenclQueue *q, size_t skip, const Batch *b) {
        if (skip == 0 && (!b->any_order || b->n_over == b->n))
                q->head += b->n_over;
        else {
                size_t kept = q->head + skip, end = kept + b->n;
                for (size_t i = 0; i < b->n; i++)
                        if (b->status[i] == OPENCL_EVENT_PENDING)
                                q->tracked[kept++] = b->tracked[i];
                memmove(q->tracked + kept, q->tracked + end, (q->n - end) * sizeof(OpenclTracked));
                q->n -= end - kept;
        }
        if (q->head == q->n)
                q->head = q->n = 0;
        atomic_store(&q->n_tracked, (uint32_t) opencl_record_n(q));
}

/* One batch, from `*skip` launches after the oldest. Returns whether it is worth to go on; called and left with the
 * lock held. */
static bool harvest_batch(OpenclQueue *q, size_t *skip, OpenclFound *h) {
        Batch b;

        batch_fill(q, *skip, &b);
        (void) pthread_mutex_unlock(&q->lock);
        batch_query(&b);
        (void) pthread_mutex_lock(&q->lock);
        if (b.n_over > 0) {
                batch_count(q, &b, h);
                batch_remove(q, *skip, &b);
                (void) pthread_mutex_unlock(&q->lock);
                for (size_t i = 0; i < b.n; i++)
                        if (b.status[i] != OPENCL_EVENT_PENDING)
                                (void) opencl_next.clReleaseEvent(b.tracked[i].event);
                (void) pthread_mutex_lock(&q->lock);
        }
        *skip += b.n - b.n_over;
        return opencl_record_n(q) > *skip && (b.any_order || b.n_over == b.n);
}

static void harvest_report(OpenclQueue *q, const OpenclFound *h) {
        if (h->n_done + h->n_drains == 0)
                return;
        uint64_t each_ns = opencl_guess(q, h);
        atomic_store(&q->grace, 0);
        (void) pthread_mutex_unlock(&q->lock);

        atomic_fetch_sub(&opencl_n_tracked, h->n_done + h->n_drains);
        for (uint32_t i = 0; i < h->n_drains; i++)
                xsched_queue_drained(q->xq);
        if (h->n_done > 0)
                xsched_queue_complete(q->xq, h->n_done, each_ns * h->n_done);
        opencl_bound_progress(q);
        (void) pthread_mutex_lock(&q->lock);
}

static void harvest(OpenclQueue *q, uint64_t seq, size_t max_rounds, bool waited) {
        (void) pthread_mutex_lock(&q->lock);
        q->known_seq = MAX(q->known_seq, seq);
        q->waited |= waited;
        if (q->harvesting) {
                q->again = true;
                (void) pthread_mutex_unlock(&q->lock);
                return;
        }
        q->harvesting = true;
        do {
                OpenclFound h = {};
                size_t skip = 0;
                bool more = opencl_record_n(q) > 0;
                q->again = false;
                for (size_t round = 0; more && round < max_rounds; round++)
                        more = harvest_batch(q, &skip, &h);
                harvest_report(q, &h);
                q->looked_ns = opencl_record_n(q) > 0 ? now_ns() : 0;
                q->waited = false;
                opencl_sentinels_arm(q);
        } while (q->again);
        q->harvesting = false;
        (void) pthread_mutex_unlock(&q->lock);
}

void opencl_harvest(OpenclQueue *q, uint64_t seq) {
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX, false);
}

void opencl_harvest_some(OpenclQueue *q) {
        harvest(q, 0, LAUNCH_ROUNDS, false);
}

uint64_t opencl_before_wait(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return 0;
        if (!q->callbacks_prompt)
                opencl_harvest_some(q);
        return opencl_record_last(q);
}

void opencl_after_wait(OpenclQueue *q, uint64_t seq) {
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX, seq != 0);
}

void opencl_harvest_event(cl_event event, bool waited) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t = {};
        if (q && opencl_record_find(q, event, &t))
                harvest(q, t.seq, SIZE_MAX, waited);
}

bool opencl_event_is_tracked(cl_event event) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t;
        return q && opencl_record_find(q, event, &t);
}
