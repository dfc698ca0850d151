/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Side: the local gate of an XQueue
 *
 * The protocol is that between xschedd and its clients (common/page.h), with this process on both sides: a slot of a
 * page for each XQueue, whose verdict is written by the scheduler (scheduler.c), and whose counts are those of launches
 * and commands. So it has the same guarantees: no edge is lost, and no launch waits for ever. A hold has no lease: the
 * thread that writes "run" is in the same process.
 *
 * Launches that a layer sees come by side_local(), and are in flight until the layer says that they have completed.
 * Commands count as waiting from their submission until their launch, and as in flight from then on.
 *
 * Thread safety: functions that count may be called by any thread; functions that write verdicts need the lock.
 */

#include "common/page.h"
#include "shim/compat/compat.h"

struct Side {
        PageSlot *slot;
        PageHeader *header;
        uint32_t index;
        uint32_t word; /* the verdict last written */
        _Atomic uint32_t escape;
        _Atomic unsigned refs; /* one of its XQueue, one of the gate that a layer asks; 0: free */
        _Atomic(XQueue *) xq;  /* NULL: it is gone */
        _Atomic uint32_t limit;
        _Atomic uint32_t flying; /* launches of a layer */
        _Atomic uint64_t n_launches;
        _Atomic uint32_t idle, idle_waiters; /* futex: changes when nothing is outstanding any more */
};

/* Called with the lock. Returns 0 and a reference, -ENOSPC or -ENOMEM. */
int side_new(XQueue *x, Side **ret);
/* Opens the gate for good. */
void side_escape(Side *s);
/* Drops a reference. After the last one another XQueue may use it. */
void side_release(Side *s);

/* For xsched_queue_set_local(), which has a reference: the caller drops it if that has failed. */
XschedLocal side_local(Side *s);

/* Count commands: one more is buffered; one is launched; n launched ones have completed; n buffered ones are
 * dropped. */
void side_submit(Side *s);
void side_launch(Side *s);
void side_end(Side *s, uint32_t n);
void side_drop(Side *s, uint32_t n);

/* Returns when the slot does not say hold, or after side_kick(). */
void side_wait_run(Side *s);
void side_kick(Side *s);
/* Returns when nothing is outstanding. */
void side_wait_idle(Side *s);

static inline bool side_is_held(const Side *s) {
        return atomic_load(&s->slot->verdict) & PAGE_VERDICT_HOLD && !atomic_load(&s->escape);
}

static inline uint32_t side_outstanding(const Side *s) {
        return atomic_load(&s->slot->outstanding);
}

static inline uint32_t side_in_flight(const Side *s) {
        return page_slot_read_in_flight(s->slot);
}

/* --- the scheduler's, with the lock --- */

/* Changes with watched edges, and with side_nudge(). No descriptor: programs close those that they have not opened. */
uint32_t side_nudges(void);
void side_nudge(void);
/* Returns when it is no longer `seen`, or at that time. Without the lock. */
void side_await_nudge(uint32_t seen, uint64_t until_ns);
/* Calls edge() for each XQueue that had an edge since the last call. */
void side_take_edges(void (*edge)(XQueue *x));
void side_set_watch(Side *s, uint32_t watch);
void side_set_verdict(Side *s, Verdict v);

/* In a child after fork. */
void side_forget_all(void);
