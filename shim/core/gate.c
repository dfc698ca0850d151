/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate's slow path: attaching, waiting, counting. gate.h has the invariants and why they hold.
 *
 * This file is built with -fexceptions, so that the clean-ups of a wait run when the waiting thread is cancelled.
 */

#include <sys/syscall.h>

#include "common/futex.h"
#include "shim/core/gate-count.h"
#include "shim/core/gate-private.h"
#include "shim/core/gate.h"

#define SEAT_PIN (UINT64_C(1) << 32)

/* The running mean follows the last eight samples or so: fast enough for the phases of a training step, slow enough
 * to ignore one odd kernel. */
#define MEAN_SAMPLES 8U

/* --- seats --- */

static void seat_notify(GateSeat *seat) {
        uint64_t one = 1;

        page_mark_dirty(seat->header, seat->index);
        /* Not write(): that is a cancellation point. EAGAIN means that the service has enough to read already. */
        (void) syscall(SYS_write, seat->wake, &one, sizeof(one));
}

static void seat_unpin(GateSeat *seat) {
        atomic_fetch_sub_explicit(&seat->users, SEAT_PIN, memory_order_seq_cst);
}

/* Takes up to n launches out of the seat's count. Returns how many; unless 0, the seat is also pinned. */
static uint32_t seat_claim(GateSeat *seat, uint32_t n) {
        uint64_t users = atomic_load_explicit(&seat->users, memory_order_seq_cst);

        for (;;) {
                uint32_t k = MIN((uint32_t) users, n);
                if (k == 0)
                        return 0;
                if (atomic_compare_exchange_weak_explicit(&seat->users, &users, users - k + SEAT_PIN,
                                    memory_order_seq_cst, memory_order_seq_cst))
                        return k;
        }
}

/* Returns the current seat, pinned: it keeps its slot until seat_unpin(). */
static GateSeat *gate_pin(Gate *g) {
        for (;;) {
                GateSeat *seat = atomic_load_explicit(&g->seat, memory_order_seq_cst);
                if (!seat)
                        return NULL;
                atomic_fetch_add_explicit(&seat->users, SEAT_PIN, memory_order_seq_cst);
                if (likely(atomic_load_explicit(&g->seat, memory_order_seq_cst) == seat))
                        return seat;
                seat_unpin(seat);
        }
}

static void seat_ready_edge(GateSeat *seat) {
        atomic_store_explicit(&seat->slot->ready_since_ns, now_ns(), memory_order_relaxed);
        seat_notify(seat);
}

/* Handles the edges that page_slot_end() returned. */
static void seat_ended(GateSeat *seat, unsigned ends) {
        if (ends & PAGE_END_IDLE)
                atomic_store_explicit(&seat->slot->boost, 0, memory_order_relaxed);
        if (ends != 0)
                seat_notify(seat);
}

/* gate_in_flight() adds launches in flight, gate_drained() is called when the last has completed. The latter stamps the
 * slot first: a reader that learns of the completion by an edge reads the stamp. */
static void gate_in_flight(Gate *g, PageSlot *s, uint32_t n) {
        if (atomic_fetch_add_explicit(&g->in_flight, n, memory_order_seq_cst) != 0)
                return;

        uint64_t now = now_ns();
        atomic_store_explicit(&g->busy_since_ns, now, memory_order_relaxed);
        atomic_store_explicit(&s->launched_ns, now, memory_order_relaxed);
}

static void gate_drained(Gate *g, PageSlot *s) {
        uint64_t now = now_ns(), since = atomic_exchange_explicit(&g->busy_since_ns, 0, memory_order_relaxed);

        atomic_store_explicit(&s->drained_ns, now, memory_order_relaxed);
        if (since == 0)
                return;
        atomic_fetch_add_explicit(&g->busy_ns, ns_sub(now, since), memory_order_relaxed);
        atomic_fetch_add_explicit(&s->busy_ns, ns_sub(now, since), memory_order_relaxed);
}

/* --- waiting --- */

/* The count that a thread waiting at a gate has to take back if it never returns from the wait. A jump out of a signal
 * handler runs no clean-up, so the record stays behind, and the thread's next tracked launch finds it: its frame lies
 * deeper in the stack than the frame that looks now, so nothing can return to it any more. A handler on an alternative
 * stack breaks that reasoning, and may take back a wait that it has only interrupted; therefore a wait that finds its
 * record taken counts its launch again. Records nest as signal handlers do; a wait that finds no free record goes
 * without. */
typedef struct WaitRecord {
        GateSeat *seat; /* NULL: free */
        const void *frame;
        bool waits; /* counted in `waiters`; set after counting, cleared before: a jump may leave one too many */
} WaitRecord;

/* Initial-exec TLS, because dynamic TLS is allocated on first use, which may be in a signal handler. */
static _Thread_local WaitRecord wait_records[3] __attribute__((tls_model("initial-exec")));

static void wait_take_back(WaitRecord *r) {
        GateSeat *seat = r->seat;

        r->seat = NULL;
        atomic_signal_fence(memory_order_seq_cst);
        if (!seat)
                return;
        if (r->waits)
                page_slot_end_wait(seat->slot);
        seat_ended(seat, page_slot_end(seat->slot, 1));
        seat_unpin(seat);
}

static void wait_take_backp(WaitRecord **r) {
        if (*r)
                wait_take_back(*r);
}

static void waits_look(const void *frame) {
        for (size_t i = 0; i < ELEMENTSOF(wait_records); i++)
                if (unlikely(wait_records[i].seat != NULL) && (uintptr_t) wait_records[i].frame <= (uintptr_t) frame)
                        wait_take_back(&wait_records[i]);
}

static WaitRecord *wait_record(GateSeat *seat, const void *frame) {
        WaitRecord *mine = NULL;

        waits_look(frame);
        for (size_t i = 0; i < ELEMENTSOF(wait_records); i++)
                if (!wait_records[i].seat && !mine)
                        mine = &wait_records[i];
        if (mine) {
                mine->frame = frame;
                mine->waits = false;
                atomic_signal_fence(memory_order_seq_cst);
                mine->seat = seat;
        }
        return mine;
}

static _Thread_local bool never_wait __attribute__((tls_model("initial-exec")));

void gate_never_wait(void) {
        never_wait = true;
}

void gate_forget_waits(void) {
        memset(wait_records, 0, sizeof(wait_records));
}

static bool slot_is_held(const PageSlot *s) {
        return atomic_load_explicit(&s->verdict, memory_order_relaxed) & PAGE_VERDICT_HOLD;
}

static void gate_count_wait(Gate *g, PageSlot *s, PageWait why, uint64_t since) {
        if (since > 0) {
                uint64_t waited = ns_sub(now_ns(), since);
                atomic_fetch_add_explicit(&g->waited, 1, memory_order_relaxed);
                atomic_fetch_add_explicit(&g->waited_ns, waited, memory_order_relaxed);
                atomic_fetch_add_explicit(&s->held_ns, waited, memory_order_relaxed);
        }
        if (why == PAGE_WAIT_EXPIRED) {
                atomic_fetch_add_explicit(&g->expired, 1, memory_order_relaxed);
                atomic_fetch_add_explicit(&s->lease_expiries, 1, memory_order_relaxed);
        }
}

static bool wait_is_taken_back(const WaitRecord *r, const GateSeat *seat, const void *frame) {
        return r && (r->seat != seat || r->frame != frame);
}

/* A waker wakes as many threads as `waiters` says, so a launch counts there for all its sleeps together. */
static void gate_begin_wait(GateSeat *seat, WaitRecord *r) {
        bool drained = page_slot_begin_wait(seat->slot);

        if (r) {
                atomic_signal_fence(memory_order_seq_cst);
                r->waits = true;
        }
        if (drained)
                seat_notify(seat);
}

static void gate_end_wait(PageSlot *s, WaitRecord *r) {
        if (r) {
                r->waits = false;
                atomic_signal_fence(memory_order_seq_cst);
        }
        page_slot_end_wait(s);
}

/* A caller that can poll for completions does so while launches are in flight and it waits anyway, but not so often
 * that it costs a CPU. */
#define LOOK_MIN_NS (50 * NSEC_PER_USEC)
#define LOOK_MAX_NS (500 * NSEC_PER_USEC)

static uint64_t gate_next_look(const Gate *g, const GateRoom *room) {
        if (!room || atomic_load_explicit(&g->in_flight, memory_order_seq_cst) == 0)
                return NSEC_INFINITY;
        uint64_t mean = atomic_load_explicit(&g->mean_ns, memory_order_relaxed);
        return now_ns() + CLAMP(mean / 8, LOOK_MIN_NS, LOOK_MAX_NS);
}

/* Returns false when a signal handler has taken back the launch, its wait and its pin: begin again. */
static _noinline_ bool gate_wait(Gate *g, GateSeat *seat, const GateRoom *room) {
        PageSlot *s = seat->slot;
        const void *frame = __builtin_frame_address(0);
        _cleanup_(wait_take_backp)
        WaitRecord *record = wait_record(seat, frame);

        gate_begin_wait(seat, record);
        if (room)
                room->wait(room->userdata);

        uint64_t before = now_ns(), since = 0;
        PageWait why;

        /* A wait without a record that is never returned from leaves `waiters` one too high: the service then sometimes
         * wakes too many, and learns too early that nothing is in flight. One too low would leave a thread asleep. */
        for (uint64_t look; (look = gate_next_look(g, room)),
                        (why = page_slot_wait(seat->header, s, &seat->escape, look)) == PAGE_WAIT_AGAIN &&
                                        !wait_is_taken_back(record, seat, frame);) {
                since = before;
                if (look != NSEC_INFINITY)
                        room->wait(room->userdata);
        }

        WaitRecord *r = TAKE_PTR(record);
        if (wait_is_taken_back(r, seat, frame))
                return false;
        gate_end_wait(s, r);
        if (r)
                r->seat = NULL;
        gate_count_wait(g, s, why, since);
        return true;
}

/* --- launches --- */

static bool (*_Atomic has_others_beside)(void);

void gate_set_beside(bool (*has_others)(void)) {
        atomic_store_explicit(&has_others_beside, has_others, memory_order_release);
}

/* The control thread is about to register the queue. It does not wake threads here: they poll, as those that wait for
 * completions do. */
static _noinline_ void gate_await_seat(Gate *g) {
        bool (*has_others)(void) = atomic_load_explicit(&has_others_beside, memory_order_acquire);
        const struct timespec look = ns_to_timespec(LOOK_MIN_NS);
        uint64_t end = now_ns() + GATE_SEAT_NS;
        _Atomic uint32_t never = 0;

        if (never_wait || !has_others || !has_others())
                return;
        while (!atomic_load_explicit(&g->seat, memory_order_seq_cst) && now_ns() < end)
                (void) futex(&never, FUTEX_WAIT_PRIVATE, 0, &look, 0);
}

/* What a launch without a page does before it passes. */
static void gate_prepare_private(Gate *g) {
        if (!gate_start())
                gate_await_seat(g);
}

static unsigned seat_begin(GateSeat *seat, bool counted) {
        PageSlot *s = seat->slot;
        unsigned began = page_slot_is_open(s) && !counted ? page_slot_begin_open(s) : page_slot_begin(s);

        if (began & PAGE_BEGIN_EDGE)
                seat_ready_edge(seat);
        return began;
}

/* Ends the caller's pin. */
static void gate_count_tracked(Gate *g, GateSeat *seat, uint32_t n) {
        PageSlot *s = seat->slot;

        atomic_fetch_add_explicit(&g->tracked, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->submitted, n, memory_order_relaxed);
        atomic_fetch_sub_explicit(&seat->users, SEAT_PIN - n, memory_order_seq_cst);
        gate_in_flight(g, s, n);
}

int gate_begin_slow(Gate *g, GateWait wait, const GateRoom *room, bool counted) {
        PROTECT_ERRNO;
        bool waited = false;

        waits_look(__builtin_frame_address(0));
        for (;;) {
                GateSeat *seat = gate_pin(g);
                if (!seat) {
                        if (wait == GATE_WAIT && !waited) {
                                gate_prepare_private(g);
                                /* A local gate has a bound without a service, too. */
                                if (counted && room && !never_wait)
                                        room->wait(room->userdata);
                        } else if (gate_begin_private(g))
                                return 0;
                        waited = true;
                        continue;
                }

                PageSlot *s = seat->slot;
                if (seat_begin(seat, counted) == 0) {
                        atomic_fetch_add_explicit(&s->submitted, 1, memory_order_relaxed);
                        seat_unpin(seat);
                        return 0;
                }

                /* The launch is counted already, so that the service knows that it waits. */
                if (wait == GATE_WAIT && !never_wait && (room || slot_is_held(s)) && !gate_wait(g, seat, room))
                        continue;

                gate_count_tracked(g, seat, 1);
                return 1;
        }
}

int gate_join(Gate *g, uint32_t n) {
        PROTECT_ERRNO;
        GateSeat *seat;

        while (!(seat = gate_pin(g)))
                if (gate_begin_private(g)) {
                        atomic_fetch_add_explicit(&g->private_slot.submitted, n - 1, memory_order_relaxed);
                        return 0;
                }
        if (page_slot_begin_n(seat->slot, n) & PAGE_BEGIN_EDGE)
                seat_ready_edge(seat);
        gate_count_tracked(g, seat, n);
        return 1;
}

/* Takes up to n launches out of the sum of both seats. Returns how many. */
static uint32_t gate_claim(Gate *g, uint32_t n) {
        uint32_t in_flight = atomic_load_explicit(&g->in_flight, memory_order_seq_cst), k;

        do
                k = MIN(in_flight, n);
        while (k > 0 &&
                        !atomic_compare_exchange_weak_explicit(&g->in_flight, &in_flight, in_flight - k,
                                        memory_order_seq_cst, memory_order_seq_cst));
        if (k > 0 && k == in_flight)
                gate_drained(g, atomic_load_explicit(&g->slot, memory_order_acquire));
        return k;
}

static uint32_t gate_end_on_seat(Gate *g, GateSeat *seat, uint32_t n) {
        uint32_t k = seat_claim(seat, n);

        if (k > 0) {
                seat_ended(seat, page_slot_end(seat->slot, k));
                seat_unpin(seat);
        }
        return k;
}

void gate_end(Gate *g, uint32_t n) {
        PROTECT_ERRNO;

        /* A second turn is only needed when, between the looks at the two seats, other threads ended launches and the
         * page changed. The limit of turns is for a caller that still ends launches of a dropped queue. */
        n = gate_claim(g, n);
        for (unsigned turns = 0; n > 0 && turns < 1000; turns++) {
                size_t older = atomic_load_explicit(&g->seat, memory_order_seq_cst) == &g->seats[0] ? 1 : 0;
                n -= gate_end_on_seat(g, &g->seats[older], n);
                n -= gate_end_on_seat(g, &g->seats[1 - older], n);
        }
}

/* The second sample replaces the first, which includes one-time costs. */
static void gate_learn(Gate *g, PageSlot *s, uint64_t sample_ns) {
        int64_t sample = (int64_t) CLAMP(sample_ns, UINT64_C(1), (uint64_t) UINT32_MAX);
        int64_t mean = atomic_load_explicit(&g->mean_ns, memory_order_relaxed);
        uint32_t n = atomic_load_explicit(&g->n_mean, memory_order_relaxed);

        /* Two threads at a time may lose one sample. */
        mean += (sample - mean) / CLAMP(n, 1U, MEAN_SAMPLES);
        atomic_store_explicit(&g->n_mean, MIN(n + 1, MEAN_SAMPLES), memory_order_relaxed);
        atomic_store_explicit(&g->mean_ns, (uint32_t) MAX(mean, INT64_C(1)), memory_order_relaxed);
        atomic_store_explicit(&s->mean_ns, (uint32_t) MAX(mean, INT64_C(1)), memory_order_relaxed);
}

void gate_complete(Gate *g, uint32_t n, uint64_t device_ns) {
        if (n == 0)
                return;

        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        if (device_ns > 0)
                gate_learn(g, s, device_ns / n);
        atomic_fetch_add_explicit(&g->completed, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->completed, n, memory_order_relaxed);

        uint32_t owed = unlikely(atomic_load_explicit(&g->owed, memory_order_relaxed) != 0)
                        ? atomic_exchange_explicit(&g->owed, 0, memory_order_seq_cst)
                        : 0;
        gate_end(g, n + owed);
}

bool gate_is_held(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        if (likely(!slot_is_held(s)))
                return false;

        const GateSeat *seat = atomic_load_explicit(&g->seat, memory_order_seq_cst);
        return seat && page_hold_is_valid(seat->header, now_ns());
}

void gate_boost(Gate *g) {
        PROTECT_ERRNO;
        GateSeat *seat = gate_pin(g);
        if (!seat)
                return;

        PageSlot *s = seat->slot;
        if (atomic_exchange_explicit(&s->boost, 1, memory_order_seq_cst) == 0 &&
                        atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0)
                seat_notify(seat);
        seat_unpin(seat);
}

void gate_expect(Gate *g, uint64_t at_ns) {
        PROTECT_ERRNO;
        GateSeat *seat = gate_pin(g);
        if (!seat)
                return;

        PageSlot *s = seat->slot;
        atomic_store_explicit(&s->expected_ns, at_ns, memory_order_relaxed);
        if (atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0)
                seat_notify(seat);
        seat_unpin(seat);
}

/* --- coming and going of the service --- */

void gate_init(Gate *g, bool drains) {
        memset(g, 0, sizeof(*g));
        g->drains = drains;
        atomic_store_explicit(&g->slot, &g->private_slot, memory_order_release);
}

bool gate_has_room(const Gate *g) {
        return atomic_load_explicit(&g->seats[0].users, memory_order_seq_cst) == 0 ||
                        atomic_load_explicit(&g->seats[1].users, memory_order_seq_cst) == 0;
}

/* Fills the client's words of a slot, which another queue may have used before. */
static void gate_fill_slot(Gate *g, PageSlot *s) {
        atomic_store_explicit(&s->outstanding, 0, memory_order_relaxed);
        atomic_store_explicit(&s->waiters, 0, memory_order_relaxed);
        atomic_store_explicit(&s->applied, 0, memory_order_relaxed);
        atomic_store_explicit(&s->boost, 0, memory_order_relaxed);
        atomic_store_explicit(&s->submitted, 0, memory_order_relaxed);
        atomic_store_explicit(&s->completed, g->completed, memory_order_relaxed);
        atomic_store_explicit(&s->held_ns, g->waited_ns, memory_order_relaxed);
        atomic_store_explicit(&s->busy_ns, g->busy_ns, memory_order_relaxed);
        atomic_store_explicit(&s->ready_since_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->mean_ns, g->mean_ns, memory_order_relaxed);
        atomic_store_explicit(&s->lease_expiries, (uint32_t) g->expired, memory_order_relaxed);
        atomic_store_explicit(&s->launched_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->drained_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->flying_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->flying_since_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->expected_ns, 0, memory_order_relaxed);
}

/* Adds to the gate what page_slot_count_untracked() or page_slot_begin_open() counted in the slot. Returns whether the
 * caller has to drain. */
static bool gate_counted(Gate *g, GateSeat *seat) {
        atomic_fetch_add_explicit(&seat->users, 1, memory_order_seq_cst);
        gate_in_flight(g, seat->slot, 1);
        if (!g->drains)
                atomic_fetch_add_explicit(&g->owed, 1, memory_order_seq_cst);
        return g->drains;
}

int gate_attach(Gate *g, const Page *page, uint32_t index, int wake) {
        PageSlot *s = page_slot(page, index);
        if (!s)
                return -EINVAL;

        gate_detach(g);
        size_t i = atomic_load_explicit(&g->seats[0].users, memory_order_seq_cst) == 0 ? 0 : 1;
        GateSeat *seat = &g->seats[i], *other = &g->seats[1 - i];
        if (atomic_load_explicit(&seat->users, memory_order_seq_cst) != 0)
                return -EBUSY;

        gate_carry_all_back(g);
        seat->slot = s;
        seat->header = page->header;
        seat->index = index;
        seat->wake = wake;
        atomic_store_explicit(&seat->escape, 0, memory_order_relaxed);
        gate_fill_slot(g, s);

        atomic_store_explicit(&g->seat, seat, memory_order_seq_cst);
        atomic_store_explicit(&g->slot, s, memory_order_seq_cst);
        atomic_store_explicit(&s->hooked, atomic_load_explicit(&g->hooked, memory_order_seq_cst), memory_order_seq_cst);

        uint64_t n = atomic_exchange_explicit(&g->private_slot.submitted, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->submitted, n, memory_order_relaxed);

        /* Launches from before this page may still run. */
        if (atomic_load_explicit(&g->private_slot.outstanding, memory_order_seq_cst) == 0 &&
                        atomic_load_explicit(&other->users, memory_order_seq_cst) == 0)
                return 0;
        unsigned began = page_slot_begin_open(s);
        if (began & PAGE_BEGIN_EDGE)
                seat_ready_edge(seat);
        return began & PAGE_BEGIN_COUNTED ? gate_counted(g, seat) : 0;
}

void gate_detach(Gate *g) {
        GateSeat *seat = atomic_load_explicit(&g->seat, memory_order_seq_cst);
        if (!seat)
                return;

        atomic_store_explicit(&g->seat, NULL, memory_order_seq_cst);
        atomic_store_explicit(&g->slot, &g->private_slot, memory_order_seq_cst);
        atomic_store_explicit(&seat->escape, 1, memory_order_seq_cst);
        page_slot_kick(seat->slot);
        gate_carry_back(g, seat->slot);
}

bool gate_adopt(Gate *g) {
        GateSeat *seat = atomic_load_explicit(&g->seat, memory_order_seq_cst);

        return seat && page_slot_count_untracked(seat->slot) && gate_counted(g, seat);
}

void gate_reset(Gate *g, bool drains) {
        g->slot = &g->private_slot;
        g->seat = NULL;
        for (size_t i = 0; i < ELEMENTSOF(g->seats); i++) {
                g->seats[i].slot = NULL;
                g->seats[i].users = 0;
        }
        g->completed = g->busy_ns = g->busy_since_ns = 0;
        g->in_flight = g->mean_ns = g->n_mean = g->owed = 0;
        g->private_slot.outstanding = 0;
        g->private_slot.completed = 0;
        g->drains = drains;
        gate_take(g, &(GateCounters){});
}
