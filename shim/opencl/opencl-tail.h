/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The tail: launches of an in-order queue that have no events of their own
 *
 * An event costs a tiny launch 4 to 5 us on a GPU, with the question whether it is complete, and a completion callback
 * 11 us; both may be more than the launch itself. So a queue whose application reports when it is idle, by waiting for
 * it, has an event only at every eighth launch, or one in 100 to 200 us of short ones; and no callback at all. A wait,
 * a blocking read or a completion found by the application reports the end of everything launched before, without an
 * event; so does the event of a later launch.
 *
 * A queue has a tail when its application's own waits have reported the last four ends of work in flight (or fewer ends
 * of many launches), or when it has launched a thousand times with hardly a pause, for which an end that is noticed a
 * millisecond late costs nothing; and when its launches are short. It loses the tail when it was found at rest twice
 * without a waiting thread, or when the bound is so low that each completion has to be known. The end of a held queue
 * does not count, because it says nothing about the application.
 *
 * Invariants, for every interleaving:
 *
 *   No launch is reported complete before it is. A launch has a number, `seq`, which it gets when its native call has
 *   returned, and `covers`: the newest number that had been given when its own native call began, on an in-order queue
 *   or for a marker without a wait list; else 0. So everything up to `covers` was submitted before it, and is complete
 *   when its event is, whatever the order in which two threads came back to us. A launch without event is only known
 *   complete by `covers` of a later one, or by a wait that began when the launch had its number.
 *
 *   The end is always noticed. While launches are in flight, one of these is true: an idle sentinel is armed, at the
 *   newest launch or before it; a harvester is running, which arms one or asks for a look before it ends; a look is
 *   due. The control thread looks within a millisecond. If no launch was made since OPENCL_TAIL_REST_NS and no thread
 *   waits, or if the queue is held, the look closes the tail, by a marker with an event and a sentinel. So the end of a
 *   queue at rest is noticed a millisecond late at most, and at most twice before the queue loses its tail; a waiting
 *   thread reports it at once. A wait is only trusted for a limited number of looks (a thread can leave a wait without
 *   returning from it); then the tail is closed once.
 *
 *   The bound counts launches not known complete: it may let through fewer than allowed, by the launches between two
 *   events, and never more. Events are at most half of the bound apart, and where that is more than eight, a quarter
 *   where ends are noticed at once and two thirds elsewhere. The bound and the distance of events are computed after
 *   each event, and after the first launch after a rest. In between only words that the service changes are read, and a
 *   launch of another kind computes them anew.
 *
 *   A queue whose last reference is released is closed before its handle goes.
 *
 *   The application's own events, wait lists, callbacks and order are the same as without us: a launch with any of
 *   these, or one that is a sample (opencl-time.h), has its event, and so has every launch of a queue that is out of
 *   order or that several threads launch to at once.
 */

#include "shim/opencl/opencl-queue.h"

#define OPENCL_TAIL_EVERY 8U /* until the times are known */

#define OPENCL_TAIL_REST_NS (200 * NSEC_PER_USEC)

/* Returns whether a launch of this kind, which starts now, has no event. */
bool opencl_tail_takes(OpenclQueue *q, uint64_t kind);

/* Returns whether a launch is between two events, and neither the computed bound nor the verdict stops it. */
bool opencl_tail_goes_on(OpenclQueue *q, uint64_t kind);

/* One launch in so many has an event. */
static inline uint32_t opencl_tail_every(const OpenclQueue *q) {
        if (!atomic_load_explicit(&q->tail, memory_order_relaxed))
                return 1;
        return atomic_load_explicit(&q->plan_every, memory_order_relaxed) ?: OPENCL_TAIL_EVERY;
}

/* Under the queue's lock. note_idle: nothing is in flight any more; `told`: the application waited for it. note_busy:
 * launches have completed, and more are in flight. note_begin: the first launch after nothing was in flight. */
void opencl_tail_note_idle(OpenclQueue *q, bool told);
void opencl_tail_note_busy(OpenclQueue *q);
void opencl_tail_note_begin(OpenclQueue *q, uint64_t now);

/* Under the queue's lock. note_rest: the queue was at rest, and no wait would have reported it. stop: its launches have
 * events and sentinels from now on. */
void opencl_tail_note_rest(OpenclQueue *q);
void opencl_tail_stop(OpenclQueue *q);
