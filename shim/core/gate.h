/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The gate: what stands in front of one queue's launches, inside the application
 *
 * A gate looks at one slot. Without a service that is a slot of its own in private memory, which is always open, so
 * that a launch never asks whether there is a page; with one it is the queue's slot in the shared page (common/page.h).
 * The control thread moves a gate between the two by gate_attach() and gate_detach() while launches go on.
 *
 * Cost. An open gate is gate_begin(): one pointer, four words of the slot, one relaxed add, no call into the kernel and
 * no lock. Everything else is in gate_begin_slow().
 *
 * What holds, whatever the interleaving:
 *
 *   No count gets lost, or goes to a page that did not count the launch. A tracked launch is counted in the seat (gate
 *   and slot) that it began on. gate_end() takes from the older seat first: which of two launches it was does not
 *   matter, the sums do. A seat's `users` word says how many launches and threads still need it, and a seat with users
 *   is never pointed at another slot; a gate whose two seats both have users is attached later.
 *
 *   The number of launches let through is exact, too, except that a thread which stalls in the fast path while the
 *   service is lost and found twice counts its launch in a slot that nobody reads any more.
 *
 *   No memory goes away under a reader. Pages stay mapped for the life of the process (client.h bounds their number),
 *   so a thread that read the slot pointer and then lost the CPU for an hour reads an old page, which says "run".
 *
 *   Nobody is left waiting. gate_detach() sets the seat's escape word, writes "run" into the dead page (nobody else
 *   writes it any more) and wakes: a waiter that has not slept yet finds the futex word changed, one that sleeps is
 *   woken.
 *
 *   Work from before the page is known to the page. gate_attach() publishes the seat and then looks at the private
 *   slot's UNTRACKED bit; a first launch sets that bit and then looks at the seat. Both are sequentially consistent, so
 *   one of the two carries the bit over.
 *
 * Nobody passes a hold by making queues. A queue that is not registered yet has an open gate; while another queue of
 * the process has others beside it, its first launch waits until it is, for GATE_SEAT_NS at most.
 *
 * A queue that always has a launch to come is never idle. A launch is counted first; then it waits for room among those
 * in flight, then for the verdict. Were it counted only after the wait for room, a queue with room for one would be
 * idle for a moment after each launch, and lose its turn to whoever is ready then.
 *
 * A thread that leaves a wait without returning from it (siglongjmp() out of a signal handler, asynchronous
 * cancellation) would leave its launch counted for ever. Cancellation unwinds through gate.c and takes the launch back;
 * a jump is noticed at the same thread's next wait, see the records in gate.c.
 *
 * Thread safety: gate_begin(), _end(), _complete(), _limit(), _boost(), _read() from any thread and from signal
 * handlers; all other functions from the control thread only. None touches errno, none blocks except gate_begin_slow()
 * in a held queue.
 */

#include "common/page.h"

typedef struct GateSeat {
        _Atomic(PageSlot *) slot; /* NULL: never used */
        PageHeader *header;
        uint32_t index;
        int wake;                /* eventfd; stays open while the process lives */
        _Atomic uint32_t escape; /* 1: detached, nobody waits here any more */
        _Atomic uint64_t
                        users; /* low half: tracked launches not complete; high half: threads at work here */
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
        _Atomic uint32_t n_mean; /* samples that it is made of, up to a number */
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

/* An open gate in fresh memory. `drains`: the owner ends what gate_attach() and gate_adopt() ask for; without, the
 * gate's next completion counts as the end. */
void gate_init(Gate *g, bool drains);

/* Open, without a slot, all counters 0: for another queue in the same memory, and for what a fork leaves in the child,
 * whose copies of the parent's queues are nobody's business and must not count in the parent's page. Nobody launches
 * meanwhile. */
void gate_reset(Gate *g, bool drains);

/* Seats the gate at a slot of a page that stays mapped. `wake`: the page's eventfd. Returns 0; 1 when something has to
 * be drained, as gate_adopt(); -EBUSY while launches from two pages ago have not completed (try again when
 * gate_has_room()); -EINVAL for a slot that the page does not have. */
int gate_attach(Gate *g, const Page *page, uint32_t index, int wake);
bool gate_has_room(const Gate *g);

/* Opens the gate for good and forgets the slot. Harmless when there is none. */
void gate_detach(Gate *g);

/* If unwatched launches may be outstanding: counts them as one tracked launch from now on. Returns true when the caller
 * has to have them drained, and to call gate_end(g, 1) when all that was submitted before has completed. Launches that
 * pass unwatched after this call mark the slot anew. */
bool gate_adopt(Gate *g);

/* The service watches the gate and does not know what is outstanding. */
static inline bool gate_wants_drain(Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0 &&
                        atomic_load_explicit(&s->outstanding, memory_order_seq_cst) &
                        PAGE_OUTSTANDING_UNTRACKED;
}

static inline bool gate_is_watched(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_seq_cst) != 0;
}

/* Others are on the device, too: the service wants to hear when a hold has taken effect. */
static inline bool gate_has_others(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return atomic_load_explicit(&s->watch, memory_order_relaxed) & PAGE_WATCH_DRAINED;
}

/* Whether a launch would wait now. */
bool gate_is_held(const Gate *g);

/* How long a first launch waits for a page: many times longer than a registration takes, also on a busy machine. */
#define GATE_SEAT_NS (50 * NSEC_PER_MSEC)

/* Whether another queue of the process has others beside it: asked before the first launch of one without a page. */
void gate_set_beside(bool (*has_others)(void));

typedef enum GateWait {
        GATE_WAIT,   /* as long as the queue is held */
        GATE_NOWAIT, /* be counted, and pass */
} GateWait;

/* Returns when there is room for one more launch, see gate_limit(). While the queue is held and has something in flight
 * it is called again and again, for who has to look to know what has completed. */
typedef struct GateRoom {
        void (*wait)(void *userdata);
        void *userdata;
} GateRoom;

/* 1 (tracked): count the completion by gate_complete(); 0: do not. `room` may be NULL. `counted`: also
 * when the service does not watch. */
int gate_begin_slow(Gate *g, GateWait wait, const GateRoom *room, bool counted);

static inline int gate_begin_bounded(Gate *g, GateWait wait, const GateRoom *room) {
        PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);

        if (unlikely(!page_slot_is_open(s) ||
                            !(atomic_load_explicit(&s->outstanding, memory_order_relaxed) &
                                            PAGE_OUTSTANDING_UNTRACKED)))
                return gate_begin_slow(g, wait, room, false);

        atomic_fetch_add_explicit(&s->submitted, 1, memory_order_relaxed);
        return 0;
}

static inline int gate_begin(Gate *g, GateWait wait) {
        return gate_begin_bounded(g, wait, NULL);
}

/* The same, and it is counted whether or not the service watches: 0 only where there is no service. */
static inline int gate_begin_counted(Gate *g, GateWait wait, const GateRoom *room) {
        return gate_begin_slow(g, wait, room, true);
}

/* n tracked launches are over. More than were begun are ignored. */
void gate_end(Gate *g, uint32_t n);

/* The same for launches that ran: keeps the counters and the mean time of a launch. */
void gate_complete(Gate *g, uint32_t n, uint64_t device_ns);

/* Launches in flight at most; 0: unlimited. */
uint32_t gate_limit(const Gate *g);

/* The same for launches that are known to take `each_ns`; 0: unknown. */
uint32_t gate_limit_for(const Gate *g, uint64_t each_ns);

/* How long before the oldest of `limit` launches is expected to end the next may follow, nanoseconds. */
uint64_t gate_lead(const Gate *g);

void gate_boost(Gate *g);

/* What all that is in flight takes, and since when; 0: only the mean of a launch is known. Fit for signal handlers. */
void gate_set_flying(Gate *g, uint64_t ns, uint64_t since_ns);

/* What the slot says of how launches are seen. Fit for signal handlers. */
void gate_set_hooked(Gate *g, uint32_t hooked);

/* The calling thread passes held gates from now on, counted: the control thread must not wait for itself. */
void gate_never_wait(void);

/* In a child after fork: the thread that is left has abandoned no wait. */
void gate_forget_waits(void);

/* Adds what the gate has counted to *counters. */
void gate_read(const Gate *g, GateCounters *counters);

/* The same, and counts from 0 again: a reader of both sums may miss some for a moment, and never counts one twice. */
void gate_take(Gate *g, GateCounters *counters);
