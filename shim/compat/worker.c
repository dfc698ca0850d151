/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Commands that were submitted
 *
 * A command is in the list `pending`, or is x->launching, or is in `flying`, and goes from the one to the next.
 * Commands keep the order of their submission, so the oldest is the first of `flying`, or else `launching`, or else the
 * first of `pending`.
 */

#include "shim/compat/worker.h"
#include "common/thread-util.h"
#include "shim/compat/scheduler.h"
#include "shim/compat/side.h"

static void list_push(CommandList *l, Command *c) {
        c->next = NULL;
        if (l->last)
                l->last->next = c;
        else
                l->first = c;
        l->last = c;
        l->n++;
}

static Command *list_pop(CommandList *l) {
        Command *c = l->first;

        if (!c)
                return NULL;
        l->first = c->next;
        if (!l->first)
                l->last = NULL;
        l->n--;
        return c;
}

/* --- the ends of commands --- */

static void note_result(XQueue *x, const Command *c) {
        if (c->result == kXSchedSuccess)
                return;
        if (x->first_error == kXSchedSuccess)
                x->first_error = c->result;
        x->failures[x->n_failures % FAILURES_MAX].handle = c->handle;
        x->failures[x->n_failures % FAILURES_MAX].result = c->result;
        x->n_failures++;
}

static void command_gone(XQueue *x, Command *c) {
        note_result(x, c);
        compat_remove_command(c);
        free(c);
}

XResult worker_result(const XQueue *x, HwCommandHandle handle) {
        for (size_t i = 0; i < MIN(x->n_failures, (size_t) FAILURES_MAX); i++)
                if (x->failures[i].handle == handle)
                        return x->failures[i].result;
        return kXSchedSuccess;
}

/* Called by the thread: all commands up to `last` (NULL: all) have completed. */
static void reap(XQueue *x, const Command *last) {
        Command *c;
        bool more = true;

        while (more && (c = list_pop(&x->flying))) {
                more = c != last;
                if (c->tracked)
                        xsched_queue_complete(x->queue, 1, 0);
                side_end(x->side, 1);
                command_gone(x, c);
        }
        (void) pthread_cond_broadcast(&x->done);
}

/* Waits for the first command that has a mark; if none has, for all. */
static void await_flying(XQueue *x) {
        const HwQueue *h = x->hwq;
        Command *marked = x->flying.first;

        while (marked && !marked->mark)
                marked = marked->next;
        void *mark = marked ? TAKE_PTR(marked->mark) : NULL;
        int r = 0;

        compat_unlock();
        if (mark)
                h->platform->wait(mark);
        else
                r = h->platform->finish(h);
        compat_lock();
        /* The wait has failed, and nothing else reports the end of these commands: count them as ended now. */
        if (r < 0 && x->first_error == kXSchedSuccess)
                x->first_error = kXSchedErrorHardware;
        reap(x, marked);
}

/* Whether as many commands are in flight as the smallest of three bounds allows: the runtime's, xschedd's and ours. */
static bool is_full(const XQueue *x) {
        uint32_t limit = x->queue && !x->is_layers ? xsched_queue_limit(x->queue) : 0;
        uint64_t most = (uint64_t) x->threshold;

        if (limit > 0)
                most = MIN(most, (uint64_t) limit);
        return x->flying.n >= most;
}

/* --- launching --- */

/* Called by xschedd's gate while the queue is held: looks for completed launches. */
static void make_room(void *userdata) {
        XQueue *x = userdata;
        COMPAT_LOCKED;

        if (x->flying.n > 0 && (is_full(x) || xsched_queue_get_state(x->queue) & XSCHED_QUEUE_HELD))
                await_flying(x);
}

/* Returns false in the child of a fork in the callback, where the XQueue is not, nor any lock held. */
static bool launch(XQueue *x, Command *c) {
        const HwQueue *h = x->hwq;
        bool mark = h->platform->mark && x->flying.n % (size_t) x->batch_size + 1 == (size_t) x->batch_size;

        compat_unlock();
        if (x->queue && !x->is_layers)
                c->tracked = xsched_queue_begin_bounded(x->queue, make_room, x) == XSCHED_TRACKED;
        compat_launching = x;
        c->result = c->launch(h->handle, c->data);
        if (!compat_launching)
                return false;
        compat_launching = NULL;
        if (mark)
                c->mark = h->platform->mark(h);
        compat_lock();
        return true;
}

/* Returns when there may be something to do. */
static void await_turn(XQueue *x) {
        if (x->flying.n > 0) {
                while (x->flying.n > 0)
                        await_flying(x);
                return;
        }
        compat_unlock();
        side_wait_run(x->side);
        compat_lock();
}

static void *worker_main(void *userdata) {
        XQueue *x = userdata;

        (void) pthread_setname_np(pthread_self(), "xsched-xqueue");
        if (x->hwq->platform->attach)
                x->hwq->platform->attach(x->hwq);
        compat_lock();
        for (;;) {
                if (x->flying.n > 0 && (!x->pending.first || is_full(x)))
                        await_flying(x);
                else if (!x->pending.first && x->ending)
                        break;
                else if (!x->pending.first)
                        compat_sleep(&x->work);
                else if (side_is_held(x->side))
                        await_turn(x);
                else {
                        Command *c = x->launching = list_pop(&x->pending);
                        side_launch(x->side);
                        if (!launch(x, c))
                                return NULL;
                        x->launching = NULL;
                        list_push(&x->flying, c);
                }
        }
        x->has_worker = false;
        (void) pthread_cond_broadcast(&x->done);
        compat_unlock();
        compat_unref(x);
        return NULL;
}

int worker_submit(XQueue *x, Command *c) {
        if (!x->has_worker) {
                x->refs++;
                /* With a stack as the program's own threads have, because the program's callbacks run on it. */
                int r = thread_start(worker_main, x, 0);
                if (r < 0) {
                        x->refs--; /* it is registered, with another reference */
                        return r;
                }
                x->has_worker = true;
        }
        c->xq = x;
        list_push(&x->pending, c);
        c->seq = ++x->n_submitted;
        side_submit(x->side);
        (void) pthread_cond_signal(&x->work);
        return 0;
}

void worker_drop(XQueue *x) {
        uint32_t n = 0;

        for (Command *c; (c = list_pop(&x->pending)); n++)
                command_gone(x, c);
        if (n == 0)
                return;
        side_drop(x->side, n);
        side_kick(x->side);
        (void) pthread_cond_broadcast(&x->done);
}

/* --- waiting --- */

static Command *oldest(const XQueue *x) {
        return x->flying.first ?: x->launching ?: x->pending.first;
}

/* Waits for one command, or, without a handle, for all up to a number. If a command of another XQueue waits here, the
 * scheduler gives this XQueue the other's urgency meanwhile. */
static void wait_until_gone(XQueue *x, HwCommandHandle one, uint64_t seq) {
        XQueue *waits = compat_launching;

        if (waits)
                scheduler_wait_begin(waits, x);
        for (const Command *c; one ? !!compat_find_command(one) : (c = oldest(x)) && c->seq <= seq;)
                compat_sleep(&x->done);
        if (waits)
                scheduler_wait_end(waits);
}

void worker_wait(XQueue *x, HwCommandHandle handle) {
        wait_until_gone(x, handle, 0);
}

void worker_wait_all(XQueue *x) {
        const Command *last = x->pending.last ?: x->launching ?: x->flying.last;

        if (last)
                wait_until_gone(x, 0, last->seq);
}

void worker_end(XQueue *x) {
        x->ending = true;
        (void) pthread_cond_signal(&x->work);
        side_kick(x->side);
        while (x->has_worker)
                compat_sleep(&x->done);
}
