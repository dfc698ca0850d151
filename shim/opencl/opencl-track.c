/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * Every tracked launch is in its queue's record, with its event, or without (opencl-tail.h). One thread at a time, the
 * harvester, asks the runtime which have completed and removes those; a thread that comes meanwhile asks the harvester
 * to look once more. The harvester does so a few times, and then leaves the rest to the control thread. A harvest has
 * one of five causes: the application has learned something itself (it finished, waited, read blocking, or asked), a
 * launch found too many in flight, a launch found no sentinel, a sentinel fired (opencl-sentinel.h), or the control
 * thread looked.
 *
 * Invariant: a launch in the record has an idle sentinel armed at it or before it, or a harvester is at work, which
 * arms one before it ends, or a look is to come. A launch that is put in while none of these is true becomes the
 * harvester, or asks for a look.
 *
 * No lock of ours is held around a native call, because callbacks come with the runtime's locks held; no native call is
 * made with an event that another thread could release, because only the harvester removes.
 */

#include "shim/opencl/opencl-track.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-event.h"
#include "shim/opencl/opencl-guess.h"
#include "shim/opencl/opencl-limit.h"
#include "shim/opencl/opencl-sentinel.h"
#include "shim/opencl/opencl-stamps.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"

#define BATCH         32U
#define LAUNCH_ROUNDS 2U /* batches that a launch looks at, so that its cost does not grow with the queue */
#define TURNS_MAX     4U /* turns of a harvester; after these the control thread goes on */

bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t) {
        (void) pthread_mutex_lock(&q->lock);
        bool pushed = opencl_record_push(q, event, t), watched = opencl_sentinel_seq(q) != 0;
        bool looked_at = !event || (atomic_load(&q->tail) && t->kind != OPENCL_TRACK_DRAIN);
        q->arm |= q->callbacks_spin && t->kind == OPENCL_TRACK_DRAIN; /* a poll costs less than a look that is late */
        (void) pthread_mutex_unlock(&q->lock);

        if (!pushed && event)
                (void) opencl_next.clReleaseEvent(event);
        if (pushed && !watched && looked_at)
                xsched_queue_look(q->xq);
        else if (pushed && !watched)
                opencl_harvest_some(q);
        return pushed;
}

/* --- harvest --- */

/* A copy of a part of the record, to ask the runtime without the lock. */
typedef struct Batch {
        OpenclTracked tracked[BATCH];
        OpenclEventStatus status[BATCH];
        size_t n, n_over;
        uint64_t known_seq, idle_seq, wake_seq;
        uint64_t stamp_kind, stamp_ns;
        bool stamped;   /* a launch of that kind was asked for its time; 0: it does not say */
        bool any_order; /* a pending launch says nothing about later ones */
        bool stopped;   /* it ended at a pending launch */
} Batch;

static void batch_fill(OpenclQueue *q, size_t skip, Batch *b) {
        b->any_order = !atomic_load(&q->in_order) || atomic_load(&q->multi_threaded);
        b->stopped = b->stamped = false;
        b->known_seq = q->known_seq;
        b->idle_seq = q->idle ? q->idle->seq : 0;
        b->wake_seq = q->wake ? q->wake->seq : 0;
        b->n = MIN(opencl_record_n(q) - skip, (size_t) BATCH);
        b->n_over = 0;
        memcpy(b->tracked, q->tracked + q->head + skip, b->n * sizeof(OpenclTracked));
        memset(b->status, 0, sizeof(b->status));
}

/* A launch that is known to be complete is asked all the same when it has a sentinel, because that one needs to know
 * whether it failed. */
static bool batch_asks(const Batch *b, const OpenclTracked *t) {
        return t->event && (t->seq > b->known_seq || t->seq == b->idle_seq || t->seq == b->wake_seq);
}

/* Whether a failed launch shows that earlier launches are complete. A launch whose wait list failed does not: it fails
 * at once, whatever runs before it. A marker of ours does: it has no wait list, and may be the last event that
 * tells. */
static bool batch_tells_failed(const Batch *b, size_t i) {
        return b->status[i] == OPENCL_EVENT_FAILED && (b->tracked[i].point || b->tracked[i].drain);
}

static void batch_query(Batch *b) {
        for (size_t i = 0; i < b->n && !b->stopped; i++) {
                if (!batch_asks(b, b->tracked + i))
                        continue;
                b->status[i] = opencl_event_status(b->tracked[i].event);
                if (b->status[i] == OPENCL_EVENT_COMPLETE || batch_tells_failed(b, i))
                        b->known_seq = MAX(b->known_seq, b->tracked[i].covers);
                else if (b->status[i] == OPENCL_EVENT_PENDING && b->tracked[i].seq > b->known_seq)
                        b->stopped = !b->any_order;
        }
        for (size_t i = 0; i < b->n; i++) {
                if (b->status[i] == OPENCL_EVENT_PENDING && b->tracked[i].seq <= b->known_seq)
                        b->status[i] = OPENCL_EVENT_COMPLETE;
                b->n_over += b->status[i] != OPENCL_EVENT_PENDING;
        }
}

/* Reads the time stamps of the newest sample that is complete. */
static void batch_read_stamps(Batch *b) {
        for (size_t i = b->n; i > 0 && !b->stamped; i--) {
                const OpenclTracked *t = b->tracked + i - 1;
                if (b->status[i - 1] != OPENCL_EVENT_COMPLETE || !t->stamps)
                        continue;
                b->stamp_kind = t->kind;
                b->stamp_ns = opencl_stamps_read(t->event);
                b->stamped = true;
        }
}

static void batch_count(OpenclQueue *q, const Batch *b, OpenclFound *h) {
        q->known_seq = MAX(q->known_seq, b->known_seq);
        if (b->stamped)
                opencl_stamps_learn(q, b->stamp_kind, b->stamp_ns);
        for (size_t i = 0; i < b->n; i++) {
                const OpenclTracked *t = b->tracked + i;
                if (b->status[i] == OPENCL_EVENT_PENDING)
                        continue;
                q->done_seq = MAX(q->done_seq, t->seq);
                h->n_removed++;
                if (t->point)
                        continue;
                h->unsafe |= !t->safe || t->drain;
                if (!t->drain)
                        h->kind = h->n_done == 0 || h->kind == t->kind ? t->kind : 0;
                h->n_done += !t->drain;
                h->n_drains += t->drain;
                atomic_store_explicit(&q->flying_ns,
                                atomic_load_explicit(&q->flying_ns, memory_order_relaxed) - t->expected_ns,
                                memory_order_relaxed);
        }
}

static void batch_give_up(OpenclQueue *q, const Batch *b) {
        for (size_t i = 0; i < b->n; i++) {
                const OpenclTracked *t = b->tracked + i;
                if (b->status[i] != OPENCL_EVENT_FAILED)
                        continue;
                if (!t->point && !t->drain)
                        q->covered_seq = 0; /* no other launch reports what it would have */
                opencl_time_give_up(q, t->event);
                if (q->idle && q->idle->seq == t->seq)
                        opencl_sentinel_give_up(&q->idle);
                if (q->wake && q->wake->seq == t->seq)
                        opencl_sentinel_give_up(&q->wake);
        }
}

/* Whether the completed launches come first: then the others need not be moved. */
static bool batch_is_prefix(const Batch *b) {
        for (size_t i = 0; i < b->n_over; i++)
                if (b->status[i] == OPENCL_EVENT_PENDING)
                        return false;
        return true;
}

/* Removes completed launches. Only the harvester removes, so the entries have not moved. */
static void batch_remove(OpenclQueue *q, size_t skip, const Batch *b) {
        if (skip == 0 && batch_is_prefix(b))
                q->head += b->n_over;
        else {
                size_t kept = q->head + skip, end = kept + b->n;
                for (size_t i = 0; i < b->n; i++)
                        if (b->status[i] == OPENCL_EVENT_PENDING)
                                q->tracked[kept++] = b->tracked[i];
                memmove(q->tracked + kept, q->tracked + end, (q->n - end) * sizeof(OpenclTracked));
                q->n -= end - kept;
        }
        if (q->head == q->n) {
                atomic_fetch_sub(&opencl_n_busy, 1);
                q->head = q->n = 0;
                q->n_trusted = 0;
                atomic_store_explicit(&q->since_point, 0, memory_order_relaxed);
                atomic_store_explicit(&q->plan_every, 0, memory_order_relaxed);
        }
        atomic_store(&q->n_tracked, (uint32_t) opencl_record_n(q));
}

static void batch_release(const Batch *b) {
        for (size_t i = 0; i < b->n; i++)
                if (b->status[i] != OPENCL_EVENT_PENDING && b->tracked[i].event)
                        (void) opencl_next.clReleaseEvent(b->tracked[i].event);
}

/* One batch, from `*skip` launches after the oldest. Returns whether it is worth to go on; called and left with the
 * lock held. */
static bool harvest_batch(OpenclQueue *q, size_t *skip, OpenclFound *h) {
        Batch b;

        batch_fill(q, *skip, &b);
        (void) pthread_mutex_unlock(&q->lock);
        batch_query(&b);
        batch_read_stamps(&b);
        (void) pthread_mutex_lock(&q->lock);
        if (b.n_over > 0) {
                batch_count(q, &b, h);
                batch_give_up(q, &b);
                batch_remove(q, *skip, &b);
                (void) pthread_mutex_unlock(&q->lock);
                batch_release(&b);
                (void) pthread_mutex_lock(&q->lock);
        }
        /* Launches without an event at the end of a batch are decided by the next batch. */
        *skip += b.n - b.n_over;
        return opencl_record_n(q) > *skip && !b.stopped;
}

static void harvest_report(OpenclQueue *q, OpenclFound *h) {
        if (h->n_removed == 0)
                return;
        if (opencl_record_n(q) == 0)
                opencl_tail_note_idle(q, q->waited || atomic_load(&q->app_waits) + atomic_load(&q->event_waits) > 0);
        else
                opencl_tail_note_busy(q);
        uint64_t each_ns = opencl_guess(q, h);
        atomic_store(&q->grace, 0);
        (void) pthread_mutex_unlock(&q->lock);

        for (uint32_t i = 0; i < h->n_drains; i++)
                xsched_queue_drained(q->xq);
        if (h->began_ns != 0)
                xsched_queue_started(q->xq, h->began_ns);
        if (h->n_done > 0)
                xsched_queue_complete(q->xq, h->n_done, each_ns * h->n_done);
        opencl_limit_progress(q);
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
        for (unsigned turn = 0; turn == 0 || (q->again && turn < TURNS_MAX); turn++) {
                OpenclFound h = {};
                size_t skip = 0;
                bool more = opencl_record_n(q) > 0;
                q->again = false;
                for (size_t round = 0; more && round < max_rounds; round++)
                        more = harvest_batch(q, &skip, &h);
                /* A later batch may have reported launches that were skipped. */
                q->again |= opencl_record_n(q) > 0 && q->tracked[q->head].seq <= q->known_seq;
                harvest_report(q, &h);
                q->looked_ns = opencl_record_n(q) > 0 ? now_ns() : 0;
                q->waited = false;
                opencl_sentinels_arm(q);
        }
        q->harvesting = false;
        if (q->again)
                xsched_queue_look(q->xq);
        bool forgotten = q->forgotten;
        (void) pthread_mutex_unlock(&q->lock);
        if (unlikely(forgotten))
                opencl_track_forget(q);
}

/* A thread that is looking at the queue meanwhile ends its part, and calls this then. */
void opencl_track_forget(OpenclQueue *q) {
        uint32_t n_done = 0, n_drains = 0;

        (void) pthread_mutex_lock(&q->lock);
        q->forgotten = true;
        for (size_t i = q->head; !q->harvesting && i < q->n; i++) {
                n_done += !q->tracked[i].drain && !q->tracked[i].point;
                n_drains += q->tracked[i].drain;
        }
        if (!q->harvesting) {
                if (q->n > q->head)
                        atomic_fetch_sub(&opencl_n_busy, 1);
                q->head = q->n = 0;
                atomic_store(&q->n_tracked, 0);
                atomic_store(&q->flying_ns, 0);
        }
        (void) pthread_mutex_unlock(&q->lock);
        n_drains += atomic_exchange(&q->n_drains, 0); /* no look will put them any more */

        for (uint32_t i = 0; i < n_drains; i++)
                xsched_queue_drained(q->xq);
        if (n_done > 0)
                xsched_queue_complete(q->xq, n_done, 0);
        opencl_limit_progress(q);
}

void opencl_harvest(OpenclQueue *q, uint64_t seq) {
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX, false);
}

void opencl_harvest_some(OpenclQueue *q) {
        harvest(q, 0, LAUNCH_ROUNDS, false);
}

void opencl_before_wait(OpenclQueue *q, OpenclWait *w) {
        *w = (OpenclWait){};
        if (atomic_load(&q->n_tracked) == 0)
                return;
        atomic_fetch_add(&q->app_waits, 1);
        w->queue = q;
        if (!q->callbacks_prompt)
                opencl_harvest_some(q);
        w->seq = opencl_record_last(q);
}

void opencl_after_wait(OpenclQueue *q, OpenclWait *w, bool tells) {
        uint64_t seq = tells ? w->seq : 0;
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX, seq != 0);
        opencl_wait_leave(w);
}

/* The sequence number up to which the end of the launch reports others; none when it has failed. */
static uint64_t covered(cl_event event, const OpenclTracked *t) {
        return opencl_event_status(event) == OPENCL_EVENT_COMPLETE ? t->covers : 0;
}

void opencl_harvest_event(cl_event event, bool waited) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t = {};
        if (q && opencl_record_find(q, event, &t))
                harvest(q, covered(event, &t), SIZE_MAX, waited);
}

void opencl_harvest_asked(cl_event event) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t = {};
        if (q && atomic_load(&q->tail) && opencl_record_find(q, event, &t))
                harvest(q, covered(event, &t), SIZE_MAX, true);
}

bool opencl_event_is_tracked(cl_event event) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t;
        return q && opencl_record_find(q, event, &t);
}
