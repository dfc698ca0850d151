/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * Every tracked launch stands in its queue's array with its event. One thread at a time, the harvester, asks the runtime
 * which have completed and removes those; whoever else comes meanwhile only leaves word to look once more. It comes
 * from four sides: the application has learned something itself (it finished, waited, read blocking), a launch found too
 * many in flight, or one of at most two completion callbacks per queue fired. A callback costs more than a tiny launch, so
 * there is not one for each: the idle sentinel hangs on what is the newest launch when it is armed, and is armed again while
 * newer ones are there when it fires; so the last completion is always noticed at once, and the others in bunches.
 *
 * No lock of ours is held around a native call, because callbacks come with the runtime's locks held; no native call is made with
 * an event that somebody else could release, because only the harvester removes.
 *
 * Safe and unsafe. Waiting for a launch deadlocks when it needs something that the waiting thread would have to do. A launch is safe
 * when nothing that it waits for is: each event in its wait list is complete, or a safe launch of a queue of ours (which we flush);
 * and, on an in-order queue, when the same holds for all before it. User events, events of unknown queues, native kernels and what
 * passed the gate with a wait list while nobody watched are unsafe. `unsafe_seq` carries this along an in-order queue, and
 * behind barriers along others: what comes later is unsafe until one launch with that number or higher has completed, which
 * proves that the obstacle is gone.
 */

#include "common/time-util.h"
#include "opencl-launch.h"

#define BATCH         32U
#define TRACKED_MAX   65536U
#define SEARCH_MAX    256U /* newest launches among which an event of a wait list is looked for */
#define LAUNCH_ROUNDS 2U   /* batches that a launch looks at: its cost must not grow with the queue */

__thread OpenclThread opencl_thread __attribute__((tls_model("initial-exec")));

/* --- what the runtime knows of an event --- */

static bool event_is_complete(cl_event event) {
        cl_int status = CL_QUEUED;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                            NULL) != CL_SUCCESS)
                return true;          /* it will never tell */
        return status <= CL_COMPLETE; /* a failed command is over, too */
}

static cl_command_queue event_queue(cl_event event) {
        cl_command_queue queue = NULL;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL) !=
                        CL_SUCCESS)
                return NULL;
        return queue;
}

/* --- the array, under the lock --- */

static OpenclTracked *tracked_find(OpenclQueue *q, cl_event event) {
        size_t last = q->n - q->head > SEARCH_MAX ? q->n - SEARCH_MAX : q->head;
        for (size_t i = q->n; i > last; i--)
                if (q->tracked[i - 1].event == event)
                        return q->tracked + i - 1;
        return NULL;
}

static bool tracked_reserve(OpenclQueue *q) {
        if (q->n < q->allocated)
                return true;
        if (q->head > 0) {
                memmove(q->tracked, q->tracked + q->head, (q->n - q->head) * sizeof(OpenclTracked));
                q->n -= q->head;
                q->head = 0;
        }
        if (q->n < q->allocated)
                return true;
        if (q->allocated >= TRACKED_MAX)
                return false;

        size_t allocated = q->allocated ? q->allocated * 2 : 64;
        OpenclTracked *t = reallocarray(q->tracked, allocated, sizeof(OpenclTracked));
        if (!t)
                return false;
        q->tracked = t;
        q->allocated = allocated;
        return true;
}

static bool tracked_push(OpenclQueue *q, cl_event event, bool waits_safe) {
        if (!tracked_reserve(q))
                return false;

        bool in_order = atomic_load_explicit(&q->in_order, memory_order_relaxed);
        uint64_t seq = ++q->last_seq;
        if (atomic_exchange(&q->waits_unknown, false) || (in_order && !waits_safe))
                q->unsafe_seq = seq;
        if (q->n == q->head)
                q->started_ns = now_ns();
        q->tracked[q->n++] = (OpenclTracked){
                        .event = event,
                        .seq = seq,
                        .safe = waits_safe && q->unsafe_seq <= q->done_seq,
        };
        atomic_store(&q->n_tracked, (uint32_t) (q->n - q->head));
        atomic_fetch_add(&opencl_n_tracked, 1);
        return true;
}

/* --- harvest --- */

/* What one harvest found, summed up for the service. */
typedef struct Harvest {
        uint32_t n_done;
        bool unsafe;
} Harvest;

/* Whether an event says nothing about those before it. */
static bool unordered(const OpenclQueue *q) {
        return !atomic_load(&q->in_order) || atomic_load(&q->multi_threaded);
}

/* Asks about n launches; done[i] is the answer. Without the lock. */
static size_t batch_query(
                const OpenclTracked *batch, size_t n, uint64_t known_seq, bool any_order, bool *done) {
        size_t n_done = 0;
        for (size_t i = 0; i < n; i++) {
                done[i] = (!any_order && batch[i].seq <= known_seq) || event_is_complete(batch[i].event);
                n_done += done[i];
                if (!done[i] && !any_order)
                        return n_done; /* done[] is read up to n_done only, then */
        }
        return n_done;
}

/* Removes what is done from `at` on. Only the harvester removes, so the n entries are still where they were. */
static void batch_remove(OpenclQueue *q, size_t at, size_t n, const bool *done, Harvest *h) {
        size_t kept = at;
        for (size_t i = at; i < q->n; i++) {
                OpenclTracked *t = q->tracked + i;
                if (i - at >= n || !done[i - at]) {
                        q->tracked[kept++] = *t;
                        continue;
                }
                q->done_seq = MAX(q->done_seq, t->seq);
                h->unsafe |= !t->safe;
                h->n_done++;
        }
        q->n = kept;
}

/* One batch, from `skip` launches after the oldest. Returns how many of them stayed; called and left with the lock held. */
static size_t harvest_batch(OpenclQueue *q, size_t skip, Harvest *h, bool *ret_more) {
        OpenclTracked batch[BATCH];
        bool done[BATCH] = {};

        bool any_order = unordered(q);
        uint64_t known_seq = q->known_seq;
        size_t n = MIN(q->n - q->head - skip, (size_t) BATCH);
        memcpy(batch, q->tracked + q->head + skip, n * sizeof(OpenclTracked));
        (void) pthread_mutex_unlock(&q->lock);

        size_t n_done = batch_query(batch, n, known_seq, any_order, done);

        (void) pthread_mutex_lock(&q->lock);
        if (any_order)
                batch_remove(q, q->head + skip, n, done, h);
        else {
                for (size_t i = 0; i < n_done; i++)
                        h->unsafe |= !batch[i].safe;
                if (n_done > 0)
                        q->done_seq = MAX(q->done_seq, batch[n_done - 1].seq);
                h->n_done += (uint32_t) n_done;
                q->head += n_done;
        }
        if (q->head == q->n)
                q->head = q->n = 0;
        atomic_store(&q->n_tracked, (uint32_t) (q->n - q->head));
        (void) pthread_mutex_unlock(&q->lock);

        for (size_t i = 0; i < n; i++)
                if (done[i])
                        (void) opencl_next.clReleaseEvent(batch[i].event);

        (void) pthread_mutex_lock(&q->lock);
        size_t stayed = n - n_done;
        *ret_more = q->n - q->head > skip + stayed && (any_order || stayed == 0);
        return stayed;
}

/* The device time of what was found: from one look that left work behind to the next the device had no other. A first
 * estimate, before there was such a spell, contains the way there and back. */
static uint64_t harvest_time(OpenclQueue *q, const Harvest *h) {
        uint64_t now = now_ns(), sample = 0;
        if (!h->unsafe && q->saturated_since_ns != 0)
                sample = now - q->saturated_since_ns;
        else if (!h->unsafe && q->mean_ns == 0)
                sample = now - q->started_ns;

        bool busy = q->n > q->head && q->tracked[q->head].safe;
        q->saturated_since_ns = busy ? now : 0;
        if (sample > 0) {
                uint64_t each = sample / h->n_done;
                q->mean_ns = q->mean_ns == 0 ? each : (q->mean_ns * 7 + each) / 8;
        }
        return sample;
}

static void harvest_report(OpenclQueue *q, const Harvest *h) {
        if (h->n_done == 0)
                return;
        uint64_t device_ns = harvest_time(q, h);
        atomic_store(&q->grace, 0);
        (void) pthread_mutex_unlock(&q->lock);

        atomic_fetch_sub(&opencl_n_tracked, h->n_done);
        xsched_queue_complete(q->xq, h->n_done, device_ns);
        opencl_bound_progress(q);
        (void) pthread_mutex_lock(&q->lock);
}

static void CL_CALLBACK sentinel_fired(cl_event event, cl_int status, void *userdata) {
        PROTECT_ERRNO;
        OpenclSentinel *s = userdata;
        OpenclQueue *q = s->queue;
        uint64_t seq = s->seq;

        atomic_store(&s->armed, false);
        opencl_harvest(q, seq);
        opencl_queue_unref(q);
}

/* Hangs a sentinel on the launch at `index`. Called and left with the lock held; the event stays ours meanwhile, because we are
 * the harvester. The callback may come from inside the call. */
static void sentinel_arm(OpenclQueue *q, OpenclSentinel *s, size_t index) {
        cl_event event = q->tracked[index].event;
        s->seq = q->tracked[index].seq;
        atomic_store(&s->armed, true);
        opencl_queue_ref(q);
        (void) pthread_mutex_unlock(&q->lock);

        if (opencl_next.clSetEventCallback(event, CL_COMPLETE, sentinel_fired, s) != CL_SUCCESS) {
                atomic_store(&s->armed, false);
                opencl_queue_unref(q); /* the caller has one, too */
        }
        /* Some runtimes start nothing before they are told to: a launch that counts as outstanding shall be on its way. */
        if (opencl_queue_pin(q)) {
                (void) opencl_next.clFlush(q->handle);
                opencl_queue_unpin(q);
        }
        (void) pthread_mutex_lock(&q->lock);
}

static void sentinels_arm(OpenclQueue *q) {
        size_t n = q->n - q->head;
        if (n > 0 && !atomic_load(&q->idle.armed))
                sentinel_arm(q, &q->idle, q->n - 1);

        /* A bound waiter goes on when `keep` are left, so it wants to hear of the one before those. */
        n = q->n - q->head;
        if (atomic_load(&q->bound_waiters) == 0 || !q->callbacks_prompt || n <= q->keep ||
                        atomic_load(&q->wake.armed))
                return;
        size_t index = q->n - q->keep - 1;
        if (!atomic_load(&q->idle.armed) || q->idle.seq > q->tracked[index].seq)
                sentinel_arm(q, &q->wake, index);
}

static void harvest(OpenclQueue *q, uint64_t seq, size_t max_rounds) {
        (void) pthread_mutex_lock(&q->lock);
        q->known_seq = MAX(q->known_seq, seq);
        if (q->harvesting) {
                q->again = true;
                (void) pthread_mutex_unlock(&q->lock);
                return;
        }
        q->harvesting = true;
        do {
                Harvest h = {};
                bool more = q->n > q->head;
                size_t skip = 0;
                q->again = false;
                for (size_t round = 0; more && round < max_rounds; round++)
                        skip += harvest_batch(q, skip, &h, &more);
                harvest_report(q, &h);
                sentinels_arm(q);
        } while (q->again);
        q->harvesting = false;
        (void) pthread_mutex_unlock(&q->lock);
}

void opencl_harvest(OpenclQueue *q, uint64_t seq) {
        PROTECT_ERRNO;
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX);
}

void opencl_harvest_some(OpenclQueue *q) {
        harvest(q, 0, LAUNCH_ROUNDS);
}

uint64_t opencl_last_seq(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return 0;
        (void) pthread_mutex_lock(&q->lock);
        uint64_t seq = q->last_seq;
        (void) pthread_mutex_unlock(&q->lock);
        return seq;
}

static bool tracked_look_up(OpenclQueue *q, cl_event event, OpenclTracked *ret) {
        (void) pthread_mutex_lock(&q->lock);
        OpenclTracked *t = tracked_find(q, event);
        if (t)
                *ret = *t;
        (void) pthread_mutex_unlock(&q->lock);
        return t;
}

void opencl_harvest_event(cl_event event) {
        PROTECT_ERRNO;
        OpenclTracked t = {};
        OpenclQueue *q = opencl_queue_find(event_queue(event));
        if (q && tracked_look_up(q, event, &t))
                opencl_harvest(q, t.seq);
}

bool opencl_event_is_tracked(cl_event event) {
        OpenclTracked t;
        OpenclQueue *q = opencl_queue_find(event_queue(event));
        return q && tracked_look_up(q, event, &t);
}

/* --- safe and unsafe --- */

static bool wait_is_safe(OpenclQueue *q, cl_event event) {
        if (event_is_complete(event))
                return true;

        cl_command_queue handle = event_queue(event);
        OpenclQueue *other = handle ? opencl_queue_find(handle) : NULL;
        if (!other)
                return false; /* a user event, or a queue that is nothing to us */
        if (other == q && atomic_load(&q->in_order))
                return true; /* no more than what in-order means anyway */

        OpenclTracked t = {};
        if (other != q && other->priority_hint < 0)
                xsched_queue_boost(other->xq);
        if (!tracked_look_up(other, event, &t) || !t.safe)
                return false;
        if (other != q && opencl_queue_pin(other)) {
                (void) opencl_next.clFlush(other->handle);
                opencl_queue_unpin(other);
        }
        return true;
}

static bool waits_are_safe(OpenclQueue *q, cl_uint n_waits, const cl_event *waits) {
        bool safe = true;
        for (cl_uint i = 0; i < n_waits && waits; i++)
                safe &= wait_is_safe(q, waits[i]);
        return safe;
}

void opencl_observe(OpenclQueue *q, OpenclObserve what, cl_uint n_waits, const cl_event *waits) {
        PROTECT_ERRNO;
        if (!atomic_load_explicit(&q->in_order, memory_order_relaxed)) {
                /* What a barrier waits for may itself have passed unseen. */
                if (what == OPENCL_OBSERVE_BARRIER)
                        opencl_note_waits(q);
                return;
        }
        if (what == OPENCL_OBSERVE_HOST ||
                        (n_waits > 0 &&
                                        (atomic_load(&q->n_tracked) == 0 ||
                                                        !waits_are_safe(q, n_waits, waits))))
                opencl_note_waits(q);
}

/* --- launches --- */

void opencl_launch_start(OpenclQueue *q, cl_event *event, OpenclLaunch *ret) {
        /* Two threads at once: the runtime's order need not be the one in which they come back to us. */
        if (atomic_fetch_add(&q->submitting, 1) != 0)
                atomic_store(&q->multi_threaded, true);
        ret->queue = q;
        ret->own = NULL;
        ret->event = event ?: &ret->own;
}

void opencl_launch_end(OpenclLaunch *l, bool failed, cl_uint n_waits, const cl_event *waits) {
        PROTECT_ERRNO;
        OpenclQueue *q = l->queue;
        cl_event event = failed ? NULL : *l->event;
        bool pushed = false;

        if (event) {
                /* The application's event is its own to release; ours we have from the runtime. */
                if (l->event != &l->own)
                        (void) opencl_next.clRetainEvent(event);
                bool safe = waits_are_safe(q, n_waits, waits);

                (void) pthread_mutex_lock(&q->lock);
                pushed = tracked_push(q, event, safe);
                (void) pthread_mutex_unlock(&q->lock);
                if (!pushed)
                        (void) opencl_next.clReleaseEvent(event);
        }
        atomic_fetch_sub(&q->submitting, 1);
        if (!pushed)
                xsched_queue_complete(q->xq, 1, 0);
        else if (!atomic_load(&q->idle.armed))
                opencl_harvest_some(q);
}

uint64_t opencl_blocking_start(OpenclQueue *q) {
        return opencl_last_seq(q);
}

void opencl_blocking_end(OpenclQueue *q, uint64_t seq, bool failed) {
        xsched_queue_complete(q->xq, 1, 0);
        opencl_harvest(q, failed ? 0 : seq);
}

/* --- the drain --- */

static void CL_CALLBACK drain_done(cl_event event, cl_int status, void *userdata) {
        PROTECT_ERRNO;
        OpenclQueue *q = userdata;

        xsched_queue_drained(q->xq);
        (void) opencl_next.clReleaseEvent(event);
        opencl_queue_unref(q);
}

static cl_int enqueue_marker(cl_command_queue handle, cl_event *ret) {
        if (opencl_next.clEnqueueMarkerWithWaitList)
                return opencl_next.clEnqueueMarkerWithWaitList(handle, 0, NULL, ret);
        return opencl_next.clEnqueueMarker(handle, ret);
}

void opencl_drain(XschedQueue *xq, void *userdata) {
        PROTECT_ERRNO;
        OpenclQueue *q = userdata;
        cl_event marker = NULL;

        if (!opencl_queue_pin(q))
                return;
        if (q->xq != xq) {
                opencl_queue_unpin(q);
                return;
        }

        opencl_queue_ref(q);
        bool asked = enqueue_marker(q->handle, &marker) == CL_SUCCESS &&
                        opencl_next.clSetEventCallback(marker, CL_COMPLETE, drain_done, q) == CL_SUCCESS;
        if (asked)
                (void) opencl_next.clFlush(q->handle);
        else {
                /* Nothing can tell us when: better idle too early than busy for ever. */
                if (marker)
                        (void) opencl_next.clReleaseEvent(marker);
                xsched_queue_drained(xq);
                opencl_queue_unref(q);
        }
        opencl_queue_unpin(q);
}
