/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The gate in front of one queue's launches, inside the application
 *
 * A gate looks at one slot. Without a service that is a slot of its own in private memory, which is always open, so
 * that a launch never has to check for a page; with a service it is the queue's slot in the shared page
 * (common/page.h). The control thread moves a gate between the two by gate_attach() and gate_detach() while launches go
 * on.
 *
 * Cost. An open gate is gate_begin(): one pointer, four words of the slot, one relaxed add, no call into the kernel and
 * no lock. Everything else is in gate_begin_slow(). A layer may do the same without a call: shim/late/open-gate.h.
 *
 * Invariants, for every interleaving:
 *
 *   No count gets lost, or goes to a page that did not count the launch. A tracked launch is counted in the seat (gate
 *   and slot) that it began on. gate_end() takes from the older seat first: which of two launches it was does not
 *   matter, the sums do. A seat's `users` word says how many launches and threads still need it, and a seat with users
 *   is never pointed at another slot; a gate whose two seats both have users is attached later.
 *
 *   The number of launches let through is exact, too, except that a thread which stalls in the fast path while the
 *   service is lost and found twice counts its launch in a slot that is no longer read.
 *
 *   No memory goes away under a reader. Pages stay mapped for the life of the process (link.c bounds their number). A
 *   thread that read the slot pointer and then lost the CPU for an hour reads an old page; if that says hold, the
 *   thread goes to gate_begin_slow(), which looks at the current seat.
 *
 *   No thread is left waiting. gate_detach() sets the seat's escape word, then adds a generation to the verdict word
 *   and wakes: a waiter that has not slept yet finds the futex word changed, one that sleeps is woken.
 *
 *   Work from before the page is known to the page. gate_attach() publishes the seat and then looks at the private
 *   slot's UNTRACKED bit; a first launch sets that bit and then looks at the seat. Both are sequentially consistent, so
 *   one of the two carries the bit over.
 *
 * A process cannot pass a hold by making queues. A queue that is not registered yet has an open gate. If another queue
 * of the process shares its device with other clients, the first launch of the new queue waits until it is registered,
 * for GATE_SEAT_NS at most.
 *
 * A queue that always has a next launch is never idle. A launch is counted first; then it waits for room among those in
 * flight, then for the verdict. If it were counted only after the wait for room, a queue with room for one launch would
 * be idle for a moment after each, and lose its turn to a queue that is ready then.
 *
 * A thread that leaves a wait without returning from it (siglongjmp() out of a signal handler, asynchronous
 * cancellation) would leave its launch counted for ever. Cancellation unwinds through gate.c and takes the launch back;
 * a jump is noticed at the same thread's next wait, see the records in gate.c.
 *
 * Thread safety: gate_begin(), _end(), _complete(), _limit(), _boost(), _read() from any thread and from signal
 * handlers; all other functions from the control thread only, unless they say otherwise. None touches errno, none
 * blocks except gate_begin_slow() in a held queue.
 */

#include "common/page.h"

typedef struct GateSeat {
        _Atomic(PageSlot *) slot; /* NULL: never used */
        PageHeader *header;
        uint32_t index;
        int wake;                /* eventfd; stays open while the process lives */
        _Atomic uint32_t escape; /* 1: detached, no thread waits here any more */
        _Atomic uint64_t users;  /* low half: tracked launches not complete; high half: threads at work here */
} GateSeat;

typedef struct Gate {
        /* Read by every launch, written when the service comes or goes. */
        _Atomic(PageSlot *) slot; /* never NULL */
        _Atomic(GateSeat *) seat; /* NULL: `slot` is the private one */
        GateSeat seats[2];

        /* Written on the slow path only. */
        _Atomic uint32_t in_flight _aligned_(PAGE_LINE); /* tracked launches not complete, on both seats */
        _Atomic uint64_t tracked;
        _Atomic uint64_t completed;
        _Atomic uint64_t waited;
        _Atomic uint64_t waited_ns;
        _Atomic uint64_t expired;
        _Atomic uint64_t busy_ns;
        _Atomic uint64_t busy_since_ns;
        _Atomic uint32_t mean_ns;
        _Atomic uint32_t n_mean; /* number of samples in mean_ns, up to a maximum */
        _Atomic uint32_t owed;   /* launches that gate_adopt() counted and that the next completion ends */
        _Atomic uint32_t hooked; /* PageHooked */
        bool drains;

        PageSlot private_slot _aligned_(PAGE_LINE);
} Gate;

typedef struct GateCounters {
        uint64_t launches;
        uint64_t tracked;
        uint64_t waited;
        uint64_t waited_ns;
        uint64_t expired;
} GateCounters;

/* Makes an open gate in fresh memory. `drains`: the owner reports the end of the drains that gate_attach() and
 * gate_adopt() ask for; otherwise the gate's next completion counts as that end. */
void gate_init(Gate *g, bool drains);

/* Resets a gate: open, without a slot, all counters 0. For another queue in the same memory, and in the child after a
 * fork, whose copies of the parent's queues must not count in the parent's page. No thread may launch meanwhile. */
void gate_reset(Gate *g, bool drains);

/* Connects the gate to a slot of a page that stays mapped. `wake`: the page's eventfd. Returns 0; 1: the caller has to
 * drain, as after gate_adopt(); -EBUSY: launches from two pages ago have not completed (try again when
 * gate_has_room()); -EINVAL: the page has no such slot. */
int gate_attach(Gate *g, const Page *page, uint32_t index, int wake);
bool gate_has_room(const Gate *g);

/* Opens the gate until the next gate_attach() and forgets the slot. Does nothing without a slot. */
void gate_detach(Gate *g);

/* Counts unwatched launches that may be outstanding as one tracked launch from now on. Returns true when there are any:
 * the caller then drains them, and calls gate_end(g, 1) when everything submitted before has completed. Launches that
 * pass unwatched after this call mark the slot anew. */
bool gate_adopt(Gate *g);

/* Returns whether the service watches the gate and uncounted launches may be outstanding. */
static inline bool gate_wants_drain(Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0 &&
                        atomic_load_explicit(&s->outstanding, memory_order_seq_cst) & PAGE_OUTSTANDING_UNTRACKED;
}

static inline bool gate_is_watched(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0;
}

/* Returns whether other clients are on the device: the service then watches when a hold has taken effect. */
static inline bool gate_has_others(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_relaxed) & PAGE_WATCH_DRAINED;
}

/* Returns whether a launch would wait now. */
bool gate_is_held(const Gate *g);

/* The maximum wait of a first launch for a page: many times a registration, also on a busy machine. */
#define GATE_SEAT_NS (50 * NSEC_PER_MSEC)

/* Sets the function that tells whether another queue of the process shares its device with other clients. It is called
 * before the first launch of a queue without a page. */
void gate_set_beside(bool (*has_others)(void));

typedef enum GateWait {
        GATE_WAIT,   /* wait as long as the queue is held */
        GATE_NOWAIT, /* count the launch, and pass */
} GateWait;

/* wait() returns when there is room for one more launch, see gate_limit(). While the queue is held and has launches in
 * flight it is called repeatedly, for callers that find completions by polling. */
typedef struct GateRoom {
        void (*wait)(void *userdata);
        void *userdata;
} GateRoom;

/* Returns 1: tracked, the caller reports the completion by gate_complete(); 0: untracked. `room` may be NULL.
 * `counted`: track the launch also when the service does not watch. */
int gate_begin_slow(Gate *g, GateWait wait, const GateRoom *room, bool counted);

static inline int gate_begin_bounded(Gate *g, GateWait wait, const GateRoom *room) {
        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);

        return likely(page_slot_pass(s)) ? 0 : gate_begin_slow(g, wait, room, false);
}

static inline int gate_begin(Gate *g, GateWait wait) {
        return gate_begin_bounded(g, wait, NULL);
}

/* As gate_begin_bounded(), but tracks the launch whether or not the service watches. Returns 0 only without a
 * service. */
static inline int gate_begin_counted(Gate *g, GateWait wait, const GateRoom *room) {
        return gate_begin_slow(g, wait, room, true);
}

/* Counts n > 0 launches that were made without the gate, while a tracked launch of the queue was in flight. Returns 1:
 * they are tracked now; 0: there is no page any more. */
int gate_join(Gate *g, uint32_t n);

/* Ends n tracked launches. Ignores those beyond the number in flight. */
void gate_end(Gate *g, uint32_t n);

/* As gate_end(), for launches that ran: also updates the counters and the mean time of a launch. `device_ns`: device
 * time of all n; 0: unknown. */
void gate_complete(Gate *g, uint32_t n, uint64_t device_ns);

void gate_boost(Gate *g);

/* Tells the service when the application expects its next launch. */
void gate_expect(Gate *g, uint64_t at_ns);

/* The calling thread passes held gates from now on, and its launches are counted: the control thread must not wait for
 * itself. */
void gate_never_wait(void);

/* In a child after fork: forgets the wait records, which belong to waits in the parent. */
void gate_forget_waits(void);
