/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * Every tracked launch stands in its queue's array with its event. One thread at a time, the harvester, asks the runtime
 * which have completed and removes those; whoever else comes meanwhile only leaves word to look once more. It comes
 * from four sides: the application has learned something itself (it finished, waited, read blocking), a launch found too
 * many in flight, a launch found no sentinel, or a sentinel fired. A sentinel is a completion callback; it costs more than a tiny
 * launch, so there is not one for each: the idle sentinel hangs on what is the newest launch when it is armed, and is armed
 * again while newer ones are there when it fires; so the last completion is always noticed at once, and the others in bunches.
 *
 * Invariant: a launch in the array has an idle sentinel armed at it or before it, or a harvester is at work, which arms one
 * before it ends. A launch that is put in while neither is true becomes the harvester.
 *
 * No lock of ours is held around a native call, because callbacks come with the runtime's locks held; no native call is made with
 * an event that somebody else could release, because only the harvester removes.
 */

#include "shim/opencl/opencl-track.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-time.h"

#define BATCH         32U
#define TRACKED_MAX   65536U
#define SEARCH_MAX    256U /* newest launches among which an event is looked for */
#define LAUNCH_ROUNDS 2U   /* batches that a launch looks at: its cost must not grow with the queue */
#define PROMPT_NS     (20 * NSEC_PER_USEC)

_Atomic uint32_t opencl_n_tracked;

/* --- what the runtime knows of an event --- */

OpenclEventStatus opencl_event_status(cl_event event) {
        cl_int status = CL_QUEUED;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                            NULL) != CL_SUCCESS)
                return OPENCL_EVENT_FAILED; /* it will never tell */
        if (status < CL_COMPLETE)
                return OPENCL_EVENT_FAILED;
        return status == CL_COMPLETE ? OPENCL_EVENT_COMPLETE : OPENCL_EVENT_PENDING;
}

cl_command_queue opencl_event_queue(cl_event event) {
        cl_command_queue queue = NULL;
        if (opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL) !=
                        CL_SUCCESS)
                return NULL;
        return queue;
}

/* --- the array, under the lock --- */

static size_t n_in_flight(const OpenclQueue *q) {
        return q->n - q->head;
}

static bool tracked_reserve(OpenclQueue *q) {
        if (q->n < q->allocated)
                return true;
        if (q->head > 0) {
                memmove(q->tracked, q->tracked + q->head, n_in_flight(q) * sizeof(OpenclTracked));
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

static bool tracked_push(OpenclQueue *q, cl_event event, const OpenclTrack *t) {
        if (!tracked_reserve(q))
                return false;

        bool in_order = atomic_load_explicit(&q->in_order, memory_order_relaxed);
        bool drain = t->kind == OPENCL_TRACK_DRAIN;
        bool own_safe = t->kind == OPENCL_TRACK_SAFE || (drain && in_order);
        uint64_t expected = drain ? 0
                                  : opencl_time_expected(q, t->what)
                                                        ?: atomic_load_explicit(
                                                                           &q->mean_ns, memory_order_relaxed);
        uint64_t seq = ++q->last_seq;
        if (atomic_exchange(&q->waits_unknown, false) || (in_order && !own_safe))
                q->unsafe_seq = seq;
        if (q->n == q->head) {
                q->started_ns = t->start_ns;
                atomic_store_explicit(&q->head_since_ns, t->start_ns, memory_order_relaxed);
        }
        q->tracked[q->n++] = (OpenclTracked){
                        .event = event,
                        .seq = seq,
                        .kind = t->what,
                        .expected_ns = expected,
                        .safe = own_safe && q->unsafe_seq <= q->done_seq,
                        .drain = drain,
        };
        atomic_fetch_add_explicit(&q->flying_ns, expected, memory_order_relaxed);
        atomic_store(&q->n_tracked, (uint32_t) n_in_flight(q));
        atomic_fetch_add(&opencl_n_tracked, 1);
        return true;
}

bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t) {
        (void) pthread_mutex_lock(&q->lock);
        bool pushed = tracked_push(q, event, t), watched = q->idle;
        (void) pthread_mutex_unlock(&q->lock);

        if (!pushed)
                (void) opencl_next.clReleaseEvent(event);
        else if (!watched)
                opencl_harvest_some(q);
        return pushed;
}

bool opencl_track_find(OpenclQueue *q, cl_event event, OpenclTracked *ret) {
        bool found = false;
        (void) pthread_mutex_lock(&q->lock);
        size_t last = n_in_flight(q) > SEARCH_MAX ? q->n - SEARCH_MAX : q->head;
        for (size_t i = q->n; i > last && !found; i--) {
                found = q->tracked[i - 1].event == event;
                if (found)
                        *ret = q->tracked[i - 1];
        }
        (void) pthread_mutex_unlock(&q->lock);
        return found;
}

/* --- sentinels --- */

static void CL_CALLBACK sentinel_fired(cl_event event, cl_int status, void *userdata) {
        PROTECT_ERRNO;
        OpenclSentinel *s = userdata;
        OpenclQueue *q = atomic_exchange(&s->queue, NULL);
        if (q) {
                (void) pthread_mutex_lock(&q->lock);
                if (q->idle == s)
                        q->idle = NULL;
                if (q->wake == s)
                        q->wake = NULL;
                (void) pthread_mutex_unlock(&q->lock);
                if (opencl_own_begin()) {
                        opencl_harvest(q, s->seq);
                        opencl_own_end();
                }
                opencl_queue_unref(q);
                free(s);
        }
}

/* Those whose callback may never come, or may yet. */
static _Atomic(OpenclSentinel *) lost_sentinels;

/* Its launch has failed, and runtimes forget to call then. Called with the lock held; the caller has a reference, too. */
static void sentinel_give_up(OpenclSentinel **sentinel) {
        OpenclSentinel *s = *sentinel;
        OpenclQueue *q = s ? atomic_exchange(&s->queue, NULL) : NULL;
        if (!q)
                return;
        *sentinel = NULL;
        opencl_queue_unref(q);

        s->next_lost = atomic_load(&lost_sentinels);
        while (!atomic_compare_exchange_weak(&lost_sentinels, &s->next_lost, s))
                ;
}

/* Hangs a sentinel on the launch at `index`. Called and left with the lock held; the event stays ours meanwhile, because we are
 * the harvester. The callback may come from inside the call. */
static void sentinel_arm(OpenclQueue *q, OpenclSentinel **sentinel, size_t index) {
        OpenclSentinel *s = malloc(sizeof(*s));
        if (!s)
                return;
        cl_event event = q->tracked[index].event;
        *s = (OpenclSentinel){.queue = q, .seq = q->tracked[index].seq};
        *sentinel = s;
        opencl_queue_ref(q);
        (void) pthread_mutex_unlock(&q->lock);

        bool armed = opencl_next.clSetEventCallback(event, CL_COMPLETE, sentinel_fired, s) == CL_SUCCESS;

        /* Some runtimes start nothing before they are told to: a launch that counts as outstanding shall be on its way. */
        if (opencl_queue_pin(q)) {
                (void) opencl_next.clFlush(q->handle);
                opencl_queue_unpin(q);
        }

        (void) pthread_mutex_lock(&q->lock);
        if (!armed)
                sentinel_give_up(sentinel);
}

static void sentinels_arm(OpenclQueue *q) {
        if (n_in_flight(q) > 0 && !q->idle)
                sentinel_arm(q, &q->idle, q->n - 1);

        /* A bound waiter goes on when `keep` are left, so it wants to hear of the one before those. Read once: waiters with
         * another bound may come meanwhile. */
        size_t keep = atomic_load(&q->keep);
        if (atomic_load(&q->bound_waiters) == 0 || !q->callbacks_prompt || n_in_flight(q) <= keep || q->wake)
                return;
        size_t index = q->n - keep - 1;
        if (!q->idle || q->idle->seq > q->tracked[index].seq)
                sentinel_arm(q, &q->wake, index);
}

/* --- harvest --- */

/* What one harvest found, summed up for the service. */
typedef struct Harvest {
        uint32_t n_done, n_drains;
        bool unsafe;
        uint64_t kind; /* of all; 0: they are of several */
} Harvest;

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
        b->n = MIN(n_in_flight(q) - skip, (size_t) BATCH);
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

static void batch_count(OpenclQueue *q, const Batch *b, Harvest *h) {
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
                        sentinel_give_up(&q->idle);
                if (q->wake && q->wake->seq == t->seq)
                        sentinel_give_up(&q->wake);
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
        atomic_store(&q->n_tracked, (uint32_t) n_in_flight(q));
}

/* One batch, from `*skip` launches after the oldest. Returns whether it is worth to go on; called and left with the lock held. */
static bool harvest_batch(OpenclQueue *q, size_t *skip, Harvest *h) {
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
        return n_in_flight(q) > *skip && (b.any_order || b.n_over == b.n);
}

/* A completion is only as good as a time stamp as it was noticed soon: by a callback that comes at once, or by a look shortly
 * after one that found it missing. One that was found after a wait at the gate says nothing about the device. */
static bool harvest_is_prompt(const OpenclQueue *q, uint64_t now) {
        return q->callbacks_prompt || q->waited ||
                        (q->looked_ns != 0 && ns_sub(now, q->looked_ns) <= PROMPT_NS);
}

/* The queue is held, or was when its launch waited at the gate: others had the device for a part of the time, with what
 * they had left on it, or with turns of their own. */
static bool harvest_was_among_others(OpenclQueue *q) {
        bool is_held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;

        return atomic_exchange(&q->was_held, is_held) || is_held;
}

/* Where that is true of all launches, the shortest of several is what is known. Returns it when there are enough of
 * them; else 0. */
#define HELD_MAX 16U

static uint64_t harvest_least(OpenclQueue *q, uint64_t *kind, uint64_t each) {
        uint64_t least = q->n_held > 0 ? MIN(q->held_least_ns, each) : each;

        q->held_kind = q->n_held == 0 || q->held_kind == *kind ? *kind : 0;
        q->held_least_ns = least;
        if (++q->n_held < HELD_MAX)
                return 0;
        q->n_held = 0;
        *kind = q->held_kind;
        return least;
}

/* Somebody else's turn on the device makes a sample long, never short; so what is far above the mean counts as a little above
 * it, and in full when it is so time and again: launches have become longer then. */
#define ABOVE_MAX 2U

static void harvest_learn(OpenclQueue *q, uint64_t kind, uint64_t sample) {
        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed), most = mean + mean / 2;

        q->n_above = mean != 0 && sample > most ? q->n_above + 1 : 0;
        if (q->n_above > 0 && q->n_above <= ABOVE_MAX)
                sample = most;
        opencl_time_learn(q, kind, sample);
}

/* The device time of what was found: from one completion that left work behind to the next the device had no other; from the submission
 * to an idle queue, it is that and the way there. To a completion that was noticed late, or where others had the device
 * meanwhile, it is more: good as a first estimate, and as an upper bound, so that a mean that has gone astray comes
 * back even where completions are only ever noticed late. */
static void harvest_guess(OpenclQueue *q, const Harvest *h, uint64_t now, bool prompt) {
        bool among_others = harvest_was_among_others(q);

        if (h->unsafe || h->n_done == 0)
                return;
        uint64_t since = q->saturated_since_ns ?: q->started_ns, each = ns_sub(now, since) / h->n_done;
        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed), kind = h->kind;
        uint64_t least = among_others ? harvest_least(q, &kind, each) : 0;

        if (!among_others && prompt)
                q->n_held = 0;
        if (least > 0)
                harvest_learn(q, kind, least);
        else if (each > 0 && ((prompt && !among_others) || mean == 0 || each < mean))
                harvest_learn(q, h->kind, each);
}

/* What is learned; 0: nothing. */
static uint64_t harvest_time(OpenclQueue *q, const Harvest *h) {
        uint64_t now = now_ns();
        bool prompt = harvest_is_prompt(q, now);

        if (!q->callbacks_prompt || atomic_load(&q->no_samples))
                harvest_guess(q, h, now, prompt);
        bool busy = n_in_flight(q) > 0 && q->tracked[q->head].safe && !q->tracked[q->head].drain;
        q->saturated_since_ns = busy && prompt ? now : 0;
        atomic_store_explicit(&q->head_since_ns, q->saturated_since_ns, memory_order_relaxed);
        return opencl_time_take(q);
}

static void harvest_report(OpenclQueue *q, const Harvest *h) {
        if (h->n_done + h->n_drains == 0)
                return;
        uint64_t each_ns = harvest_time(q, h);
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
                Harvest h = {};
                size_t skip = 0;
                bool more = n_in_flight(q) > 0;
                q->again = false;
                for (size_t round = 0; more && round < max_rounds; round++)
                        more = harvest_batch(q, &skip, &h);
                harvest_report(q, &h);
                q->looked_ns = n_in_flight(q) > 0 ? now_ns() : 0;
                q->waited = false;
                sentinels_arm(q);
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

uint64_t opencl_last_seq(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return 0;
        (void) pthread_mutex_lock(&q->lock);
        uint64_t seq = q->last_seq;
        (void) pthread_mutex_unlock(&q->lock);
        return seq;
}

uint64_t opencl_before_wait(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return 0;
        if (!q->callbacks_prompt)
                opencl_harvest_some(q);
        return opencl_last_seq(q);
}

void opencl_after_wait(OpenclQueue *q, uint64_t seq) {
        if (atomic_load(&q->n_tracked) > 0)
                harvest(q, seq, SIZE_MAX, seq != 0);
}

void opencl_harvest_event(cl_event event, bool waited) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t = {};
        if (q && opencl_track_find(q, event, &t))
                harvest(q, t.seq, SIZE_MAX, waited);
}

bool opencl_event_is_tracked(cl_event event) {
        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *q = opencl_queue_get(opencl_event_queue(event));
        OpenclTracked t;
        return q && opencl_track_find(q, event, &t);
}
