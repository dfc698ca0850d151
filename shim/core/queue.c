/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues: making, dropping, and the public calls on them
 */

#include <sched.h>

#include "common/macro.h"
#include "gate-limit.h"
#include "gate-told.h"
#include "include/xsched/words.h"
#include "shim/core/client.h"
#include "shim/core/gate-count.h"
#include "shim/core/gate-private.h"
#include "shim/core/local.h"
#include "shim/core/queue.h"

#define EXPECT          "WillLaunch"
#define EXPECT_MAX_USEC 2000000

static const char *const queue_state_table[_QUEUE_STATE_MAX] = {
                [QUEUE_LOOSE] = "loose",
                [QUEUE_NEW] = "new",
                [QUEUE_REGISTERING] = "registering",
                [QUEUE_ATTACHED] = "attached",
                [QUEUE_REFUSED] = "refused",
};

const char *queue_state_to_string(QueueState s) {
        return (size_t) s < ELEMENTSOF(queue_state_table) ? queue_state_table[s] : NULL;
}

static _Atomic(XschedQueue *) all_queues;
static _Atomic(XschedQueue *) new_queues;
static _Atomic(XschedQueue *) dead_queues;

/* Queues to use again. Popping is the one operation that needs a lock: a thread that does not get it at once makes a
 * new queue instead. */
static _Atomic(XschedQueue *) free_queues;
static atomic_flag free_lock = ATOMIC_FLAG_INIT;

/* The counters of recycled queues. */
static struct { _Atomic uint64_t launches, tracked, waited, waited_ns, expired; } retired;

#define QUEUE_PUSH(list, q, link)                                                                                      \
        do {                                                                                                           \
                XschedQueue *_head = atomic_load_explicit(&(list), memory_order_relaxed);                              \
                do                                                                                                     \
                        (q)->link = _head;                                                                             \
                while (!atomic_compare_exchange_weak_explicit(                                                         \
                                &(list), &_head, (q), memory_order_seq_cst, memory_order_relaxed));                    \
        } while (false)

XschedQueue *queue_take_new(void) {
        return atomic_exchange_explicit(&new_queues, NULL, memory_order_seq_cst);
}

XschedQueue *queue_take_dead(void) {
        return atomic_exchange_explicit(&dead_queues, NULL, memory_order_seq_cst);
}

static XschedQueue *queue_pop_free(void) {
        if (atomic_flag_test_and_set_explicit(&free_lock, memory_order_acquire))
                return NULL;

        XschedQueue *q = atomic_load_explicit(&free_queues, memory_order_acquire);
        while (q &&
                        !atomic_compare_exchange_weak_explicit(
                                        &free_queues, &q, q->dead_next, memory_order_acquire, memory_order_acquire))
                ;
        atomic_flag_clear_explicit(&free_lock, memory_order_release);
        return q;
}

static void queue_free_strings(XschedQueue *q) {
        free(TAKE_PTR(q->device));
        free(TAKE_PTR(q->device_name));
        free(TAKE_PTR(q->backend));
        free(TAKE_PTR(q->label));
}

void queue_recycle(XschedQueue *q) {
        GateCounters c = {};

        local_drop(q);
        if (q->destroy)
                q->destroy(q->userdata);
        q->destroy = NULL;
        q->drain = NULL;
        q->look = NULL;
        q->apply = NULL;
        atomic_store_explicit(&q->look_wanted, false, memory_order_seq_cst);

        gate_count_move_begin();
        gate_take(&q->gate, &c);
        atomic_fetch_add_explicit(&retired.launches, c.launches, memory_order_relaxed);
        atomic_fetch_add_explicit(&retired.tracked, c.tracked, memory_order_relaxed);
        atomic_fetch_add_explicit(&retired.waited, c.waited, memory_order_relaxed);
        atomic_fetch_add_explicit(&retired.waited_ns, c.waited_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&retired.expired, c.expired, memory_order_relaxed);
        gate_count_move_end();

        queue_free_strings(q);
        QUEUE_PUSH(free_queues, q, dead_next);
}

bool queue_try_ref(XschedQueue *q) {
        uint32_t refs = atomic_load_explicit(&q->refs, memory_order_relaxed);

        do {
                if (refs == 0)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(
                        &q->refs, &refs, refs + 1, memory_order_acquire, memory_order_relaxed));
        return true;
}

void queue_read_counters(GateCounters *ret) {
        GateCounters c;

        for (unsigned n = 0; n < GATE_COUNT_TRIES; n++) {
                uint32_t moves = gate_count_moves();

                c = (GateCounters){
                                .launches = retired.launches,
                                .tracked = retired.tracked,
                                .waited = retired.waited,
                                .waited_ns = retired.waited_ns,
                                .expired = retired.expired,
                };
                for (const XschedQueue *q = atomic_load_explicit(&all_queues, memory_order_acquire); q; q = q->all_next)
                        gate_read(&q->gate, &c);
                if (!gate_count_moved(moves))
                        break;
                (void) sched_yield();
        }
        *ret = c;
}

void queue_forget_all(void) {
        atomic_store(&new_queues, NULL);
        atomic_store(&dead_queues, NULL);
        atomic_store(&free_queues, NULL);
        atomic_flag_clear(&free_lock);
        memset(&retired, 0, sizeof(retired));
        gate_count_forget();

        for (XschedQueue *q = atomic_load(&all_queues); q; q = q->all_next) {
                gate_reset(&q->gate, false);
                local_forget_all(q);
                q->drain = NULL;
                q->look = NULL;
                atomic_store(&q->look_wanted, false);
                q->apply = NULL;
                q->held = false;
                q->state = QUEUE_LOOSE;
                q->dead = false;
                q->prev = q->next = NULL;
        }
        gate_forget_waits();
}

static _Atomic bool hints_changed;

bool queue_take_hints_changed(void) {
        return atomic_load_explicit(&hints_changed, memory_order_relaxed) &&
                        atomic_exchange_explicit(&hints_changed, false, memory_order_seq_cst);
}

void queue_hints_due(XschedQueue *q) {
        if (!hints_are_set(&q->hints))
                return;
        atomic_store_explicit(&q->hints.changed, true, memory_order_seq_cst);
        atomic_store_explicit(&hints_changed, true, memory_order_seq_cst);
}

/* --- finding queues, and their hints --- */

/* The hint "WillLaunch", of one queue or (NULL) of all: the next launch is expected in so many microseconds. Returns 0
 * or -ERANGE. */
static int queue_expect(XschedQueue *only, int64_t usec) {
        if (usec < 0 || usec > EXPECT_MAX_USEC)
                return -ERANGE;

        uint64_t at = now_ns() + (uint64_t) usec * NSEC_PER_USEC;
        for (XschedQueue *q = atomic_load_explicit(&all_queues, memory_order_acquire); q; q = q->all_next) {
                if ((only && q != only) || !queue_try_ref(q))
                        continue;
                gate_expect(&q->gate, at);
                xsched_queue_unref(q);
        }
        return 0;
}

_public_
int xsched_hint(const char *name, int64_t value) {
        if (streq_ptr(name, EXPECT))
                return queue_expect(NULL, value);

        int r = name ? hints_set(client_hints(), name, value) : -EINVAL;

        if (r >= 0)
                client_kick();
        return r;
}

_public_
int xsched_queue_hint(XschedQueue *q, const char *name, int64_t value) {
        if (!q)
                return -EINVAL;
        if (streq_ptr(name, EXPECT))
                return queue_expect(q, value);

        int r = name ? hints_set(&q->hints, name, value) : -EINVAL;

        if (r < 0)
                return r;
        atomic_store_explicit(&hints_changed, true, memory_order_seq_cst);
        client_kick();
        return 0;
}

_public_
XschedQueue *xsched_queue_find(const char *backend, uint64_t native) {
        if (!backend || native == 0)
                return NULL;
        for (XschedQueue *q = atomic_load_explicit(&all_queues, memory_order_acquire); q; q = q->all_next) {
                if (!queue_try_ref(q))
                        continue;
                if (q->native == native && streq(q->backend, backend))
                        return q;
                xsched_queue_unref(q);
        }
        return NULL;
}

_public_
const char *xsched_queue_device(const XschedQueue *q) {
        return q ? q->device : NULL;
}

/* --- making --- */

static int dup_optional(const char *s, char **ret) {
        if (!s)
                return 0;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int queue_fill(XschedQueue *q, const XschedQueueInfo *info) {
        int r = dup_optional(info->device, &q->device);
        if (r == 0)
                r = dup_optional(info->device_name, &q->device_name);
        if (r == 0)
                r = dup_optional(info->backend, &q->backend);
        if (r == 0)
                r = dup_optional(info->label, &q->label);
        if (r < 0)
                return r;

        q->priority_hint = MIN(info->priority_hint, 0);
        q->drain = info->drain;
        q->look = info->look;
        q->destroy = info->destroy;
        q->userdata = info->userdata;
        q->level = info->apply ? MIN(info->level, (uint32_t) LEVEL_INTERRUPT) : 0;
        q->apply = info->apply;
        q->level_changed = false;
        q->kfd_gpu_id = info->kfd_gpu_id;
        q->kfd_queue_id = info->kfd_queue_id;
        q->native = info->native;
        hints_reset(&q->hints);
        q->held = q->apply_due = false;
        q->refused = 0;
        q->retry_at_ns = 0;
        q->state = QUEUE_LOOSE;
        q->dead = false;
        return 0;
}

static int queue_alloc(XschedQueue **ret) {
        XschedQueue *q = aligned_alloc(_Alignof(XschedQueue), sizeof(XschedQueue));
        if (!q)
                return -ENOMEM;

        memset(q, 0, sizeof(*q));
        gate_init(&q->gate, false);

        QUEUE_PUSH(all_queues, q, all_next);
        *ret = q;
        return 0;
}

int queue_make(const XschedQueueInfo *info, XschedQueue **ret) {
        XschedQueue *q = queue_pop_free();
        if (!q) {
                int r = queue_alloc(&q);
                if (r < 0)
                        return r;
        }

        int r = queue_fill(q, info);
        if (r < 0) {
                queue_free_strings(q);
                QUEUE_PUSH(free_queues, q, dead_next);
                return r;
        }
        gate_reset(&q->gate, q->drain);
        gate_set_hooked(&q->gate, info->hooked ?: (uint32_t) XSCHED_HOOKED_CALLS);
        atomic_store_explicit(&q->refs, 1, memory_order_release);
        QUEUE_PUSH(new_queues, q, new_next);
        *ret = q;
        return 0;
}

/* Walks all queues without a lock: they are never freed. */
bool queue_any_has_others(void) {
        for (const XschedQueue *q = atomic_load_explicit(&all_queues, memory_order_acquire); q; q = q->all_next)
                if (gate_has_others(&q->gate))
                        return true;
        return false;
}

void queue_look_again(void) {
        for (XschedQueue *q = atomic_load_explicit(&all_queues, memory_order_seq_cst); q; q = q->all_next)
                gate_look_again(&q->gate);
}

/* --- public --- */

_public_
int xsched_get_counters(XschedCounters *ret) {
        if (!ret || ret->size < sizeof(uint32_t))
                return -EINVAL;

        GateCounters c;
        queue_read_counters(&c);
        XschedCounters all = {
                        .size = ret->size,
                        .state = client_state(),
                        .queues = client_queues(),
                        .launches = c.launches,
                        .tracked = c.tracked,
                        .waited = c.waited,
                        .waited_ns = c.waited_ns,
                        .lease_expired = c.expired,
        };
        memcpy(ret, &all, MIN((size_t) ret->size, sizeof(all)));
        return 0;
}

_public_
XschedQueue *xsched_queue_ref(XschedQueue *q) {
        if (q)
                atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
        return q;
}

_public_
XschedQueue *xsched_queue_unref(XschedQueue *q) {
        if (q && atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) == 1) {
                QUEUE_PUSH(dead_queues, q, dead_next);
                client_kick();
        }
        return NULL;
}

_public_
int xsched_queue_words(XschedQueue *q, XschedWords *ret) {
        if (!q || !ret || ret->size < sizeof(XschedWords))
                return -EINVAL;
        ret->slot = (void *const *) (uintptr_t) &q->gate.slot;
        ret->local_gate = (void *const *) (uintptr_t) &q->local;
        return 0;
}

static bool queue_has_local(XschedQueue *q) {
        return atomic_load_explicit(&q->local, memory_order_relaxed) != NULL;
}

/* Both gates count the launch, even if the service does not watch: a completion is reported to both. */
static _noinline_ int queue_begin_local(XschedQueue *q, GateWait wait, const GateRoom *room) {
        if (!local_begin(q, wait == GATE_WAIT))
                return gate_begin_bounded(&q->gate, wait, room);
        (void) gate_begin_counted(&q->gate, wait, room);
        return XSCHED_TRACKED;
}

_public_
int xsched_queue_begin(XschedQueue *q) {
        if (unlikely(queue_has_local(q)))
                return queue_begin_local(q, GATE_WAIT, NULL);
        return gate_begin(&q->gate, GATE_WAIT);
}

_public_
int xsched_queue_begin_nowait(XschedQueue *q) {
        if (unlikely(queue_has_local(q)))
                return queue_begin_local(q, GATE_NOWAIT, NULL);
        return gate_begin(&q->gate, GATE_NOWAIT);
}

_public_
int xsched_queue_join(XschedQueue *q, uint32_t n) {
        int r = XSCHED_TRACKED;

        if (n == 0)
                return 0;
        if (likely(!queue_has_local(q)))
                return gate_join(&q->gate, n);
        for (; n > 0; n--)
                r = queue_begin_local(q, GATE_NOWAIT, NULL);
        return r;
}

/* The control thread may have waited for the queue's last launches from two pages ago. */
static void queue_ended(XschedQueue *q) {
        if (unlikely(atomic_load_explicit(&q->wants_room, memory_order_seq_cst)) && gate_has_room(&q->gate) &&
                        atomic_exchange_explicit(&q->wants_room, false, memory_order_seq_cst))
                client_kick();
}

_public_
int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata) {
        const GateRoom room = {wait, userdata};

        if (unlikely(queue_has_local(q)))
                return queue_begin_local(q, GATE_WAIT, &room);
        return gate_begin_bounded(&q->gate, GATE_WAIT, &room);
}

_public_
void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns) {
        if (unlikely(queue_has_local(q)))
                local_complete(q, n);
        gate_complete(&q->gate, n, device_ns);
        queue_ended(q);
}

_public_
void xsched_queue_drained(XschedQueue *q) {
        gate_end(&q->gate, 1);
        queue_ended(q);
}

_public_
uint32_t xsched_queue_limit(XschedQueue *q) {
        uint32_t limit = gate_limit(&q->gate);
        return unlikely(queue_has_local(q)) ? local_limit(q, limit) : limit;
}

_public_
uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns) {
        uint32_t limit = gate_limit_for(&q->gate, each_ns);
        return unlikely(queue_has_local(q)) ? local_limit(q, limit) : limit;
}

_public_
uint64_t xsched_queue_lead(XschedQueue *q) {
        return gate_lead(&q->gate);
}

_public_
void xsched_queue_boost(XschedQueue *q) {
        gate_boost(&q->gate);
}

_public_
int xsched_queue_get_state(XschedQueue *q) {
        bool local = queue_has_local(q);

        return (gate_is_watched(&q->gate) || local ? XSCHED_QUEUE_WATCHED : 0) |
                        (gate_is_held(&q->gate) || (local && local_is_held(q)) ? XSCHED_QUEUE_HELD : 0);
}

_public_
void xsched_queue_set_flying(XschedQueue *q, uint64_t ns, uint64_t since_ns) {
        gate_set_flying(&q->gate, ns, since_ns);
}

_public_
void xsched_queue_started(XschedQueue *q, uint64_t since_ns) {
        gate_started(&q->gate, since_ns);
}

_public_
void xsched_queue_set_hooked(XschedQueue *q, uint32_t hooked) {
        gate_set_hooked(&q->gate, hooked);
}

_public_
void xsched_queue_lower_level(XschedQueue *q, uint32_t level) {
        uint32_t old = atomic_load_explicit(&q->level, memory_order_relaxed);

        while (level < old)
                if (atomic_compare_exchange_weak_explicit(
                                    &q->level, &old, level, memory_order_seq_cst, memory_order_relaxed)) {
                        atomic_store_explicit(&q->level_changed, true, memory_order_seq_cst);
                        client_kick();
                        return;
                }
}
