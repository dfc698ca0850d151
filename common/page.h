/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The shared page: the data plane between xschedd and one client
 *
 * One memfd per client, made, sized and sealed (SHRINK|GROW|SEAL) by the service and mapped by both sides. Verdicts
 * go down in lines that only the service writes, state goes up in lines that only the client writes; every line is
 * 64 bytes, so neither side ever steals the other's cache line by writing. Nothing here blocks the service: it
 * writes words and wakes futexes, it never waits for a client.
 *
 * Trust. Each side keeps the truth in its own memory. The service treats everything that the client can write (and with
 * a writable mapping that is every byte of the page) as hostile: it never reads back what it wrote, never uses a value
 * as an index or a length, and clamps what it shows. A client that scribbles over its page changes its own verdicts and
 * its own statistics, and no other client's. The client checks magic, version and sizes once and uses its own copies
 * from then on.
 *
 * Memory ordering. C11 atomics; "edge" operations are sequentially consistent, because both hand-shakes below
 * are of Dekker's form (each side writes one word and then reads the other's), which release/acquire does not
 * cover. Everything else is relaxed.
 *
 *   ready edge   client: outstanding 0 -> n (seq_cst RMW), then load watch (seq_cst); if the edge is watched: set
 *                the dirty bit, then write the wake eventfd.
 *                service: store watch (seq_cst), then load outstanding (seq_cst).
 *                One of the two sees the other's write, so an edge is never lost; both may, and then the wake-up is
 *                spurious and harmless. The idle edge (n -> 0) is the same with the other watch bit.
 *   drained edge Every launch in flight on a held queue has completed. In flight are the launches that are outstanding
 *                and do not wait: outstanding - waiters. The two words are adjacent and are loaded as one, so that no
 *                state between two writes is seen. client: a completion subtracts from outstanding; a launch that waits
 *                is counted first and then added to waiters (both seq_cst). After either: load watch and verdict; when
 *                watch has the bit and the verdict is hold: load the two words, and when they are equal: dirty bit,
 *                eventfd. service: store watch, then the verdict (seq_cst), then load the two:
 *                page_slot_read_in_flight(). The thread that makes the two equal last sees them equal, unless another
 *                thread writes in between, which then looks itself. A thread that gives up its wait subtracts from
 *                waiters first: subtracting from outstanding first would hide one launch in flight for a moment. A
 *                launch that passes a hold (it must not wait, or the lease has run out) is in flight, and its end is an
 *                edge again.
 *   dirty        client: set bit (seq_cst), then write eventfd. service: woken by the write, which it never reads
 *                (wakes.h), or on its own timer, exchange the words with 0 (seq_cst), then load outstanding of each
 *                slot named. A bit set after the exchange has its eventfd write still to come. The bits only save the
 *                service from looking at every slot.
 *   quick        The service turns the edges of a queue off when they come faster than it can act on them: watch is
 *                PAGE_WATCH_COUNTED while the service takes the queue for ready, and the service polls the slot. While
 *                it takes the queue for idle it watches for the ready edge, and while the queue is held for all edges.
 *                After storing a watch with more bits the service loads outstanding, so the hand-shakes above hold. The
 *                client needs no part in this.
 *   untracked    The fast path reads `watch == 0` first and sets UNTRACKED afterwards; in between the service may have
 *                begun to watch, looked, and seen nothing. So the thread that sets the bit loads watch once more
 *                (seq_cst, the same hand-shake). If the slot is watched by then, it counts its launch instead and
 *                clears the bit: otherwise the bit would stay for ever, because the request to drain was made before.
 *   release      client: waiters += 1 (seq_cst, once for all its sleeps), then FUTEX_WAIT(verdict == the value that
 *                said hold). service: store verdict (seq_cst), then load waiters (seq_cst); FUTEX_WAKE unless 0. A
 *                client that lies about `waiters` is woken late: by its own lease timeout.
 *   escape       client: store escape (seq_cst), then add a generation to the verdict word, then FUTEX_WAKE (that is
 *                page_slot_kick()). A thread that loaded the word before and does not sleep yet finds it changed; one
 *                that loads it later sees escape. This is the only write of the client to the verdict. The service does
 *                nothing for it: it stores words from its own count, and the client never changes the hold bit.
 *   adopt        A service that finds a page of its predecessor does not know the verdict word or the waiters: it
 *                writes run with the next generation, wakes unconditionally, and looks at every slot
 *                (page_slot_set_watch()), because the predecessor may have taken a dirty bit without acting on it.
 *   lease        A hold counts only until PageHeader.lease_until_ns. The client waits with that absolute time as its
 *                futex timeout, reads the lease again when it fires, and passes the gate when the lease was not
 *                extended. The lease is in the header and not in the slot, so that renewing it is one write per client,
 *                however many queues are held. Bound: a service that stops for ever frees every job PAGE_LEASE_NS after
 *                its last renewal, whatever it was doing.
 *   level        A slot with level DEQUEUE or more is held in the driver, too, by the client's control thread. That
 *                thread sleeps, so after a change of such a slot's verdict (or of its level while held) the service
 *                sends it the one-byte datagram 'l'. The control thread reads level, verdict and lease, calls the
 *                driver, stores how long that took, and then stores the verdict word in `applied`: only the control
 *                thread writes `applied` of such a slot. It wakes by itself when the lease runs out, and releases the
 *                queue.
 *   hooked       Relaxed: shown to people, no decision depends on it.
 *   flying       Relaxed, two words that need not belong together: an estimate, from clients that know their launches
 *                better than by their mean. The service believes it no more than any other statement of a queue about
 *                itself.
 *   expected     Relaxed. After a change the client marks the slot dirty and writes the eventfd, unless nothing is
 *                watched. The service takes it as a hint of when, and gives nobody more for it than forecast.h says.
 *   threshold,   Relaxed: they limit how much may be in flight; a stale value is used for one launch at most, or for
 *   budget, lead the short launches that a layer lets on together (shim/cuda/cuda-ride.h).
 *   stamps       launched_ns is stored when in flight goes 0 -> n, and moved forward when the client learns that the
 *                device began later. drained_ns is stored before the last launch in flight is subtracted from
 *                outstanding, so before the drained and the idle edge. The service does not trust either: it clamps
 *                them between the previous event and now.
 *
 * One launch of slack. A thread that read `run` (or read `watch == 0`) and then lost the CPU can still submit after
 * the verdict changed. The protocol allows that, per thread, for one launch: closing it would take a lock around the
 * application's own call. It affects who runs for the length of one launch, never what is computed.
 *
 * Thread safety: all functions here may be called from any thread; the client's from signal handlers, too.
 * Errors: none, unless documented.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "macro.h"
#include "time-util.h"
#include "verdict.h"

#define PAGE_MAGIC       UINT64_C(0x3145474150445358) /* "XSDPAGE1", little endian */
#define PAGE_VERSION     2U
#define PAGE_LINE        64U
#define PAGE_SLOTS_MAX   4096U /* queues of one client that can be scheduled; sparse, so unused ones cost nothing */
#define PAGE_HEADER_SIZE 4096U

/* A hold counts until its lease ends. The service renews the lease, so a service that is stopped, wedged or killed
 * frees every job after this time. */
#define PAGE_LEASE_NS       (1 * NSEC_PER_SEC)
#define PAGE_LEASE_RENEW_NS (250 * NSEC_PER_MSEC)

/* The futex word: bit 0 is the verdict, the rest counts changes, so that a hold-run-hold between a client's load
 * and its FUTEX_WAIT does not look like "nothing happened". */
#define PAGE_VERDICT_HOLD     UINT32_C(1)
#define PAGE_VERDICT_GEN_STEP UINT32_C(2)

/* PageSlot.watch: the edges that the service is told of by a dirty bit and the eventfd. */
#define PAGE_WATCH_READY   UINT32_C(1)
#define PAGE_WATCH_IDLE    UINT32_C(2)
#define PAGE_WATCH_DRAINED UINT32_C(4) /* only while the verdict is hold */
#define PAGE_WATCH_ALL     (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)
#define PAGE_WATCH_COUNTED UINT32_C(8) /* no edge: launches are counted, and the service polls */

/* PageSlot.outstanding: uncounted launches may be outstanding. Set by the first launch that found the gate open and
 * unwatched; stays until the client has drained the queue under watch. */
#define PAGE_OUTSTANDING_UNTRACKED UINT32_C(0x80000000)

/* PageSlot.hooked: how libxsched sees the queue's launches. The values are those of XschedHooked, which explains
 * them. */
typedef enum PageHooked {
        HOOKED_UNKNOWN, /* the client does not say */
        HOOKED_CALLS,
        HOOKED_DOORBELL,
        HOOKED_CREATE,
        HOOKED_POLL,
        HOOKED_NONE,
        _HOOKED_MAX,
} PageHooked;

const char *page_hooked_to_string(PageHooked v);
int page_hooked_from_string(const char *s);

/* Whether the queue's launches do not pass the gate, so that a verdict cannot stop them. */
static inline bool page_hooked_is_past_gate(PageHooked v) {
        return v == HOOKED_POLL || v == HOOKED_NONE;
}

typedef struct PageHeader {
        /* line 0: service, constant after creation */
        uint64_t magic;
        uint32_t version;
        uint32_t header_size; /* bytes before the first slot */
        uint32_t slot_size;   /* bytes from slot to slot */
        uint32_t n_slots;
        uint64_t client_id;
        uint8_t _pad0[PAGE_LINE - 32];

        /* line 1: service */
        _Atomic uint64_t lease_until_ns; /* CLOCK_MONOTONIC; 0 when no slot of this client is held */
        uint8_t _pad1[PAGE_LINE - 8];

        /* lines 2..9: client */
        _Atomic uint64_t dirty[PAGE_SLOTS_MAX / 64]; /* bit n: slot n had a watched edge */
} PageHeader;

typedef struct PageSlot {
        /* line 0: service */
        _Atomic uint32_t verdict;   /* futex word, see PAGE_VERDICT_* */
        _Atomic uint32_t threshold; /* launches in flight at most; 0: unlimited */
        /* In-flight time at most, by the client's own estimate; 0: only `threshold` counts. With a budget,
         * `threshold` is the number always allowed, and the budget allows more: long kernels stay few, tiny kernels
         * stay pipelined. */
        _Atomic uint32_t budget_us;
        _Atomic uint32_t watch; /* PAGE_WATCH_* */
        _Atomic uint32_t level; /* PreemptLevel that a hold of this slot shall reach */
        /* With a threshold: how long before the expected end of its oldest launch a bounded queue may submit the next,
         * so that the device does not run dry; 0: not before that end. */
        _Atomic uint32_t lead_us;
        uint64_t queue_id;
        _Atomic uint64_t ordered_ns; /* CLOCK_MONOTONIC of the last order to the driver; see "level" above */

        /* Written by the client, although they are in this line: once per order, after the call of the driver. */
        _Atomic uint32_t hold_wake_ns, hold_call_ns; /* from ordered_ns to the call of the driver; the call itself */
        _Atomic uint32_t release_wake_ns, release_call_ns; /* the same for a release */
        uint8_t _pad0[PAGE_LINE - 56];

        /* line 1: client */
        union {
                struct {
                        /* Launches not complete, and PAGE_OUTSTANDING_UNTRACKED; 0: idle. */
                        _Atomic uint32_t outstanding;
                        /* Outstanding launches that wait, at the gate or for room. */
                        _Atomic uint32_t waiters;
                };
                _Atomic uint64_t outstanding_and_waiters; /* for loading both as one; never stored */
        };
        _Atomic uint32_t applied;        /* verdict word that a thread last acted on; see "level" above */
        _Atomic uint32_t boost;          /* non-zero: another queue of this process waits for this one */
        _Atomic uint64_t submitted;      /* launches let through */
        _Atomic uint64_t completed;      /* tracked launches seen complete */
        _Atomic uint64_t held_ns;        /* time that launches waited at the gate, summed */
        _Atomic uint64_t busy_ns;        /* while tracked: time with launches in flight, added when none is left */
        _Atomic uint64_t ready_since_ns; /* CLOCK_MONOTONIC of the last watched ready edge, for statistics */
        _Atomic uint32_t mean_ns;        /* running mean of one launch's device time; 0: unknown */
        _Atomic uint32_t lease_expiries; /* launches that passed a held gate because the lease had run out */

        /* line 2: client. Stamps are CLOCK_MONOTONIC, kept while the slot is watched; 0: never */
        _Atomic uint64_t launched_ns; /* in flight went from 0 up, or the device began later */
        _Atomic uint64_t drained_ns;  /* the last launch in flight completed, as far as the client knows */
        _Atomic uint32_t hooked;      /* PageHooked */
        uint8_t _pad3[4];
        _Atomic uint64_t flying_ns;       /* device time of all launches in flight; 0: unknown */
        _Atomic uint64_t flying_since_ns; /* CLOCK_MONOTONIC: the last completion, or the first launch */
        _Atomic uint64_t expected_ns;     /* when the application expects its next launch; see "expected" above */
        uint8_t _pad2[PAGE_LINE - 48];
} PageSlot;

_Static_assert(sizeof(PageHeader) <= PAGE_HEADER_SIZE, "header fits its page");
_Static_assert(sizeof(PageSlot) == 3 * PAGE_LINE, "a slot is three lines");
_Static_assert(offsetof(PageSlot, outstanding) == PAGE_LINE, "the client's line starts on a line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "two words are loaded as one, whichever side writes them");
_Static_assert(offsetof(PageSlot, waiters) == offsetof(PageSlot, outstanding) + 4, "side by side");
_Static_assert(offsetof(PageSlot, launched_ns) == 2 * PAGE_LINE, "the stamps have their own line");
_Static_assert(offsetof(PageHeader, lease_until_ns) == PAGE_LINE, "the lease has its own line");
_Static_assert(offsetof(PageHeader, dirty) == 2 * PAGE_LINE, "the client's lines start on a line");

#define PAGE_SIZE_BYTES ((size_t) PAGE_HEADER_SIZE + (size_t) PAGE_SLOTS_MAX * sizeof(PageSlot))

/* A mapping of the page. The service keeps `fd`; a client may close it once it is mapped. */
typedef struct Page {
        PageHeader *header;
        PageSlot *slots;
        uint32_t n_slots; /* our own copy: the client may change the one in the page */
        int fd;
} Page;

#define PAGE_NULL ((Page){.fd = -EBADF})

/* Makes, sizes, seals and maps a page. Returns 0 or a negative errno. The caller owns *ret and gives it back by
 * page_done(). */
int page_create(uint64_t client_id, Page *ret);

/* Maps a page that the service made. Returns 0 and takes over fd, or a negative errno and leaves fd to the caller;
 * -EPROTO when size, seals, magic or version are not those of this build. */
int page_open(int fd, Page *ret);

void page_done(Page *p);

static inline PageSlot *page_slot(const Page *p, uint32_t slot) {
        return slot < p->n_slots ? p->slots + slot : NULL;
}

/* --- the service's half --- */

/* Writes a verdict and wakes the slot's waiters; does not write an unchanged verdict. `last`: the word that the service
 * wrote before, from its own copy (0 for a fresh slot), because the client may change the one in the page. Returns the
 * new word. */
uint32_t page_slot_set_verdict(PageSlot *s, uint32_t last, Verdict v);

/* page_slot_set_verdict() in two steps: write the word, and wake later. Waking takes as long as the client has threads
 * that wait. *ret_waiters is the number of threads to wake by page_slot_wake(), as the client states it;
 * page_slot_wake() wakes PAGE_WAKE_MAX at most. */
#define PAGE_WAKE_MAX 4096U
uint32_t page_slot_put_verdict(PageSlot *s, uint32_t last, Verdict v, uint32_t *ret_waiters);
void page_slot_wake(PageSlot *s, uint32_t n);

/* Takes over a slot of a page that an earlier instance of the service made: sets the verdict to run and wakes all
 * waiters. Returns the word for `last`. Only this function reads the word back: a hostile value can only choose the
 * client's own generation number. */
uint32_t page_slot_adopt(PageSlot *s);

/* The service's half of the ready and idle hand-shakes: stores `watch`, then returns `outstanding`. */
static inline uint32_t page_slot_set_watch(PageSlot *s, uint32_t watch) {
        atomic_store_explicit(&s->watch, watch, memory_order_seq_cst);
        return atomic_load_explicit(&s->outstanding, memory_order_seq_cst);
}

/* Returns the number of launches in flight: those that are outstanding and do not wait. Uncounted launches count as
 * one. */
static inline uint32_t page_slot_in_flight(uint32_t outstanding, uint32_t waiters) {
        uint32_t counted = outstanding & ~PAGE_OUTSTANDING_UNTRACKED;

        return (counted > waiters ? counted - waiters : 0) + (outstanding & PAGE_OUTSTANDING_UNTRACKED ? 1 : 0);
}

/* Returns the number of launches in flight on the slot; 0: drained. The service calls this after it wrote a hold, and
 * when the slot's dirty bit was set. */
static inline uint32_t page_slot_read_in_flight(const PageSlot *s) {
        union {
                uint64_t both;
                struct {
                        uint32_t outstanding, waiters;
                };
        } v = {.both = atomic_load_explicit(&s->outstanding_and_waiters, memory_order_seq_cst)};

        return page_slot_in_flight(v.outstanding, v.waiters);
}

static inline void page_set_lease(PageHeader *h, uint64_t until_ns) {
        atomic_store_explicit(&h->lease_until_ns, until_ns, memory_order_seq_cst);
}

/* Returns and clears the dirty bits of the 64 slots from 64 * word on; `word` in 0..n_slots/64-1. */
static inline uint64_t page_take_dirty(PageHeader *h, unsigned word) {
        return atomic_exchange_explicit(&h->dirty[word], 0, memory_order_seq_cst);
}

/* --- the client's half --- */

/* All that a launch reads while no other program contends: three words of one line. */
static inline bool page_slot_is_open(const PageSlot *s) {
        return likely(((atomic_load_explicit(&s->verdict, memory_order_relaxed) & PAGE_VERDICT_HOLD) |
                                      atomic_load_explicit(&s->threshold, memory_order_relaxed) |
                                      atomic_load_explicit(&s->watch, memory_order_relaxed)) == 0);
}

/* Lets a launch through that has nothing to wait for, and that nobody watches: while the slot is open, and says that
 * such launches are outstanding. Returns false when the launch has to look more closely. */
static inline bool page_slot_pass(PageSlot *s) {
        if (unlikely(!page_slot_is_open(s) ||
                            !(atomic_load_explicit(&s->outstanding, memory_order_relaxed) &
                                            PAGE_OUTSTANDING_UNTRACKED)))
                return false;
        atomic_fetch_add_explicit(&s->submitted, 1, memory_order_relaxed);
        return true;
}

/* Bits of the begin functions' return value. */
typedef enum PageBegin {
        PAGE_BEGIN_COUNTED = 1 << 0, /* call page_slot_end() when the launch has completed */
        PAGE_BEGIN_EDGE = 1 << 1,    /* a watched edge: call page_mark_dirty(), then write the eventfd */
} PageBegin;

/* Counts one launch. Called before the gate, because a launch that waits is work, too. Returns a set of PageBegin. */
static inline unsigned page_slot_begin_n(PageSlot *s, uint32_t n) {
        if (atomic_fetch_add_explicit(&s->outstanding, n, memory_order_seq_cst) != 0)
                return PAGE_BEGIN_COUNTED;
        return PAGE_BEGIN_COUNTED |
                        (atomic_load_explicit(&s->watch, memory_order_seq_cst) & PAGE_WATCH_READY ? PAGE_BEGIN_EDGE
                                                                                                  : 0);
}

static inline unsigned page_slot_begin(PageSlot *s) {
        return page_slot_begin_n(s, 1);
}

/* For a launch that found page_slot_is_open(). Returns 0: the launch may pass uncounted. Otherwise the slot has come
 * under watch meanwhile, and the launch is counted: returns a set of PageBegin, and the launch continues through the
 * gate. */
static inline unsigned page_slot_begin_open(PageSlot *s) {
        if (likely(atomic_load_explicit(&s->outstanding, memory_order_relaxed) & PAGE_OUTSTANDING_UNTRACKED))
                return 0;

        uint32_t before = atomic_fetch_or_explicit(&s->outstanding, PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst);
        uint32_t watch = atomic_load_explicit(&s->watch, memory_order_seq_cst);
        if (before & PAGE_OUTSTANDING_UNTRACKED || watch == 0)
                return 0;

        /* Add before clearing the bit, so that the word is not 0 in between. It may be 0 already, when a drain ended
         * just now. */
        uint32_t last = atomic_fetch_add_explicit(&s->outstanding, 1, memory_order_seq_cst);
        atomic_fetch_and_explicit(&s->outstanding, ~PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst);
        return PAGE_BEGIN_COUNTED | ((before == 0 || last == 0) && watch & PAGE_WATCH_READY ? PAGE_BEGIN_EDGE : 0);
}

/* Returns whether the service has to be told that nothing is in flight any more. Called after each write that may have
 * caused this. */
static inline bool page_slot_drained_edge(const PageSlot *s) {
        return atomic_load_explicit(&s->watch, memory_order_seq_cst) & PAGE_WATCH_DRAINED &&
                        atomic_load_explicit(&s->verdict, memory_order_seq_cst) & PAGE_VERDICT_HOLD &&
                        page_slot_read_in_flight(s) == 0;
}

/* Bits of the end functions' return value. For any of them: call page_mark_dirty(), then write the eventfd. */
typedef enum PageEnd {
        PAGE_END_IDLE = 1 << 0,    /* the watched idle edge */
        PAGE_END_DRAINED = 1 << 1, /* the watched drained edge */
} PageEnd;

/* n counted launches have ended. Returns a set of PageEnd. */
static inline unsigned page_slot_end(PageSlot *s, uint32_t n) {
        bool idle = atomic_fetch_sub_explicit(&s->outstanding, n, memory_order_seq_cst) == n &&
                        atomic_load_explicit(&s->watch, memory_order_seq_cst) & PAGE_WATCH_IDLE;

        return (idle ? PAGE_END_IDLE : 0) | (page_slot_drained_edge(s) ? PAGE_END_DRAINED : 0);
}

/* Begins a drain: all uncounted launches become one counted launch, for which the caller calls page_slot_end(s, 1) when
 * everything submitted before has completed. A launch that passes uncounted during the drain (the service may stop and
 * start watching) sets the bit anew, so the end of this drain does not lose it. Returns false when there is nothing to
 * drain. */
static inline bool page_slot_count_untracked(PageSlot *s) {
        uint32_t v = atomic_load_explicit(&s->outstanding, memory_order_seq_cst);

        while (v & PAGE_OUTSTANDING_UNTRACKED)
                if (atomic_compare_exchange_weak_explicit(&s->outstanding, &v, (v & ~PAGE_OUTSTANDING_UNTRACKED) + 1,
                                    memory_order_seq_cst, memory_order_seq_cst))
                        return true;
        return false;
}

static inline void page_mark_dirty(PageHeader *h, uint32_t slot) {
        atomic_fetch_or_explicit(&h->dirty[slot / 64], UINT64_C(1) << (slot % 64), memory_order_seq_cst);
}

/* Returns whether holds count at `now` (CLOCK_MONOTONIC), or the lease has run out. */
static inline bool page_hold_is_valid(const PageHeader *h, uint64_t now) {
        return atomic_load_explicit(&h->lease_until_ns, memory_order_seq_cst) > now;
}

/* Why a wait at the gate ended. */
typedef enum PageWait {
        PAGE_WAIT_RUN,     /* the verdict is run */
        PAGE_WAIT_EXPIRED, /* the verdict is hold, and the lease has run out */
        PAGE_WAIT_AGAIN,   /* woken by a signal, or the verdict word changed: look again */
} PageWait;

/* A counted launch begins to wait, at the gate or for room. Returns true on the drained edge, to be told as
 * PAGE_END_DRAINED. */
static inline bool page_slot_begin_wait(PageSlot *s) {
        atomic_fetch_add_explicit(&s->waiters, 1, memory_order_seq_cst);
        return page_slot_drained_edge(s);
}

/* The launch waits no more: it is in flight from now on, or page_slot_end() follows. */
static inline void page_slot_end_wait(PageSlot *s) {
        atomic_fetch_sub_explicit(&s->waiters, 1, memory_order_seq_cst);
}

/* Sleeps once at the gate, after page_slot_begin_wait(). Returns at once unless the slot is held under a valid lease,
 * and at `until_ns` (CLOCK_MONOTONIC) at the latest. Does not touch errno. `*escape` (may be NULL) opens the gate from
 * inside the process when it is non-zero; the thread that sets it calls page_slot_kick(). */
PageWait page_slot_wait(const PageHeader *h, PageSlot *s, const _Atomic uint32_t *escape, uint64_t until_ns);

/* Wakes every waiter of the slot. For the client, after it has set `*escape`. */
void page_slot_kick(PageSlot *s);
