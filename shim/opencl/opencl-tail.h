/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The tail: launches of an in-order queue that have no events of their own
 *
 * An event costs a tiny launch 2 to 3 us on a GPU, and a completion callback 11 us; both may be more than the
 * launch itself. So a queue whose application tells when it is idle, by waiting for it, has an event at every eighth
 * launch only, or, where the runtime says how long launches take, at one in 100 us of short ones; and no callback at
 * all. What is waited for, read blocking, or found complete by the application tells the end of all that was launched
 * before, with no event; so does the event of a later launch.
 *
 * A queue has a tail when its application's own waits have told the last four ends of work in flight (or fewer of
 * many launches), or when it has had work in flight for a thousand launches: an end that is known a millisecond late
 * costs nothing beside so many. And its launches are short. It has none any more once it was found at rest twice with
 * nobody waiting for it, or once its launches meet a bound of so few that each has to be known. That a queue which is
 * held has come to its end says nothing of its application.
 *
 * What holds, whatever the interleaving:
 *
 *   What is said to be complete is complete. A launch has a number, `seq`, which it gets when its native call has
 *   returned, and `covers`: the newest number that had been given when its own native call began, on an in-order queue
 *   or for a marker without a wait list; else 0. So all up to `covers` was submitted before it, and is complete when
 *   its event is, whatever the order in which two threads came back to us. Launches without event are known complete
 *   by nothing else but `covers` of a later one, or by a wait that began when they had their number.
 *
 *   The end is always heard of. While something is in flight, one of these is true: an idle sentinel is armed, at the
 *   newest launch or before it; a harvester is at work, which arms one or asks for a look before it ends; a look is to
 *   come. A look is the control thread's, within a millisecond. Where nobody has launched since OPENCL_TAIL_REST_NS
 *   and nobody waits, or where the queue is held, it closes the tail, by a marker with an event and a sentinel. So the
 *   end of a queue at rest is known a millisecond late at most, and twice at most before it has no tail any more; who
 *   waits, tells at once. That somebody waits is trusted for so many looks (a thread can leave a wait without coming
 *   back from it); then the tail is closed once.
 *
 *   The bound counts what is not known complete: it lets through fewer than it may, by those between two events, and
 *   never more. Events are half of the bound at most apart, and a quarter where that is more than eight. The bound, and
 *   how far apart events are, is worked out behind each event, and behind the first launch after a rest; in between
 *   only what the service changes is looked at, and a launch of another kind works it out anew.
 *
 *   A queue whose last reference is released is closed before its handle goes.
 *
 *   The application's own events, wait lists, callbacks and order are what they are without us: a launch with any of
 *   these, or one that is a sample (opencl-time.h), has its event as ever, and so has every launch of a queue that is
 *   out of order or that several threads launch to at once.
 */

#include "shim/opencl/opencl-queue.h"

#define OPENCL_TAIL_EVERY 8U /* where no more is known */

#define OPENCL_TAIL_REST_NS (200 * NSEC_PER_USEC)

/* Whether a launch of this kind, which starts now, goes without an event. */
bool opencl_tail_takes(OpenclQueue *q, uint64_t kind);

/* Such a launch is between two events, and neither bound nor verdict are in its way, as far as was worked out. */
bool opencl_tail_goes_on(OpenclQueue *q, uint64_t kind);

/* One launch in so many has an event. */
uint32_t opencl_tail_every(const OpenclQueue *q);

/* Whatever is in flight, its end will be heard of by a sentinel. Calls the runtime; from any thread that may. */
void opencl_tail_close(OpenclQueue *q);

/* The same where the queue is held, or is about to be waited for until `keep` are in flight; a short bound, of
 * which each launch has to be known, ends the tail. */
void opencl_tail_close_held(OpenclQueue *q);
void opencl_tail_close_bound(OpenclQueue *q, uint32_t keep);

/* The application's last reference is about to be released. */
void opencl_tail_end(OpenclQueue *q);

/* XschedQueueInfo.look */
void opencl_tail_look(XschedQueue *xq, void *userdata);

/* Under the queue's lock: nothing is in flight any more; `told`: while the application waited for it. Something has
 * completed, and more is in flight. And: something will be in flight, when nothing was. */
void opencl_tail_note_idle(OpenclQueue *q, bool told);
void opencl_tail_note_busy(OpenclQueue *q);
void opencl_tail_note_begin(OpenclQueue *q, uint64_t now);

void opencl_tail_reset(OpenclQueue *q);

/* --- waits of the application --- */

/* One that may be left without being returned from: opencl_wait_leave() is its clean-up. */
typedef struct OpenclWait {
        OpenclQueue *queue;
        uint64_t seq;
} OpenclWait;

static inline void opencl_wait_leave(OpenclWait *w) {
        if (w->queue)
                atomic_fetch_sub(&w->queue->app_waits, 1);
        w->queue = NULL;
}

/* One in clWaitForEvents(), in the frame of who waits. The thread's next one ends what a jump has left; of waits
 * inside of a wait only the outermost counts. */
typedef struct OpenclEventWait {
        char frame;
} OpenclEventWait;

void opencl_event_wait_begin(OpenclEventWait *w, cl_uint n, const cl_event *events);
void opencl_event_wait_leave(OpenclEventWait *w);
