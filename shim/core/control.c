/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The control thread: its loop, and the states of its queues
 */

#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hold.h"
#include "link-queue.h"
#include "link.h"
#include "shim/core/client.h"
#include "shim/core/control.h"
#include "shim/core/look.h"

#define UNABLE_MIN_NS  NSEC_PER_SEC
#define TIMER_SLACK_NS 1000UL /* its timers wait for the ends of kernels; 50 us by default */

/* --- queues --- */

static void control_unlink(Control *c, XschedQueue *q) {
        if (q->state == QUEUE_LOOSE)
                return;
        if (q->prev)
                q->prev->next = q->next;
        else
                c->queues[q->state] = q->next;
        if (q->next)
                q->next->prev = q->prev;
        q->prev = q->next = NULL;
        q->state = QUEUE_LOOSE;
}

static void control_link(Control *c, XschedQueue *q, QueueState state) {
        XschedQueue **head = &c->queues[state];

        q->state = state;
        q->prev = NULL;
        q->next = *head;
        if (*head)
                (*head)->prev = q;
        *head = q;
}

void control_set_queue_state(Control *c, XschedQueue *q, QueueState state) {
        if (state == q->state)
                return;
        c->n_attached += (state == QUEUE_ATTACHED) - (q->state == QUEUE_ATTACHED);
        client_set_queues(c->n_attached);
        control_unlink(c, q);
        control_link(c, q, state);
}

void control_finish_queue(Control *c, XschedQueue *q) {
        hold_forget_queue(c, q);
        control_unlink(c, q);
        queue_recycle(q);
}

/* Asks the application to report when everything that it has launched so far is complete. */
static void control_drain(XschedQueue *q, bool counted) {
        if (counted && q->drain && queue_try_ref(q)) {
                q->drain(q, q->userdata);
                xsched_queue_unref(q);
        }
}

void control_drain_all(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_ATTACHED]; q; q = q->next)
                if (gate_wants_drain(&q->gate))
                        control_drain(q, gate_adopt(&q->gate));
}

void control_attach_queue(Control *c, XschedQueue *q, uint64_t id, uint32_t slot) {
        int r = -EINVAL;

        if (slot < PAGE_SLOTS_MAX && !c->by_slot[slot] && !q->dead)
                r = gate_attach(&q->gate, &c->page, slot, client_fd(CLIENT_FD_WAKE));
        if (r < 0) {
                link_forget_queue(c, id);
                if (q->dead)
                        control_finish_queue(c, q);
                else
                        control_set_queue_state(c, q, r == -EBUSY ? QUEUE_NEW : QUEUE_REFUSED);
                return;
        }

        q->id = id;
        q->slot = slot;
        q->apply_due = q->apply;
        q->refused = 0;
        c->by_slot[slot] = q;
        queue_hints_due(q);
        control_set_queue_state(c, q, QUEUE_ATTACHED);
        control_drain(q, r > 0);
}

static void control_unseat(Control *c, XschedQueue *q) {
        gate_detach(&q->gate);
        c->by_slot[q->slot] = NULL;
}

void control_detach_all(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_ATTACHED]; q; q = q->next)
                control_unseat(c, q);

        for (QueueState s = 0; s < _QUEUE_STATE_MAX; s++)
                for (XschedQueue *q = c->queues[s], *next; s != QUEUE_NEW && q; q = next) {
                        next = q->next;
                        if (q->dead)
                                control_finish_queue(c, q);
                        else
                                control_set_queue_state(c, q, QUEUE_NEW);
                }
}

void control_recall(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_REGISTERING], *next; q; q = next) {
                next = q->next;
                if (q->dead)
                        control_finish_queue(c, q);
                else
                        control_set_queue_state(c, q, QUEUE_NEW);
        }
}

void control_retry_refused(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_REFUSED], *next; q; q = next) {
                next = q->next;
                control_set_queue_state(c, q, QUEUE_NEW);
        }
}

static void control_bury(Control *c, XschedQueue *q) {
        q->dead = true;
        switch (q->state) {
        case QUEUE_REGISTERING: /* the reply with the id to remove is still to come */
                return;
        case QUEUE_ATTACHED:
                control_unseat(c, q);
                link_forget_queue(c, q->id);
                control_set_queue_state(c, q, QUEUE_NEW);
                break;
        default:
                break;
        }
        control_finish_queue(c, q);
}

/* The bus has no call to change a level, so the queue is registered anew. */
static void control_tell_levels(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_ATTACHED], *next; c->n_stoppable > 0 && q; q = next) {
                next = q->next;
                if (likely(!atomic_load_explicit(&q->level_changed, memory_order_relaxed)))
                        continue;
                atomic_store_explicit(&q->level_changed, false, memory_order_seq_cst);
                control_unseat(c, q);
                link_forget_queue(c, q->id);
                control_set_queue_state(c, q, QUEUE_NEW);
        }
}

/* A queue that was made and dropped since the last turn is in both lists. */
static void control_take_queues(Control *c) {
        XschedQueue *dead = queue_take_dead(), *fresh = queue_take_new();

        for (XschedQueue *q = fresh, *next; q; q = next) {
                next = q->new_next;
                c->n_stoppable += q->apply != NULL;
                control_link(c, q, QUEUE_NEW);
        }
        for (XschedQueue *q = dead, *next; q; q = next) {
                next = q->dead_next;
                control_bury(c, q);
        }
}

/* --- the loop --- */

/* Whether no number of ours is the application's now. Otherwise we begin anew, and leave the number to it. */
static bool control_keeps_fds(Control *c) {
        bool kept = true;

        for (ClientFd i = 0; i < _CLIENT_FD_MAX; i++) {
                if (client_fd(i) < 0 || client_has_fd(i))
                        continue;
                client_set_fd(i, -EBADF);
                kept = false;
        }
        if (!kept) {
                client_debug("xsched: the application has closed descriptors of ours");
                c->lost = true;
        }
        (void) client_renew_kick();
        return kept;
}

/* The process has lowered its limit of descriptors below those that we wait for, or has taken the call from all of its
 * threads (seccomp). Nothing can wake us then: gates open, and we look again later. Returns false when the thread may
 * not even sleep. */
static bool control_cannot_wait(Control *c, int error) {
        if (c->state != LINK_DOWN) {
                c->lost = true;
                link_turn(c);
        }
        link_tell(c, "its thread cannot wait for the service", strerror(error));
        c->unable_ns = c->unable_ns == 0 ? UNABLE_MIN_NS : MIN(c->unable_ns * 2, LINK_BACKOFF_MAX_NS);
        struct timespec left = ns_to_timespec(c->unable_ns);
        int r = clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
        return r == 0 || r == EINTR;
}

/* Returns what the lifeline has, or a negative errno: the thread is to end. */
static int control_wait(Control *c) {
        uint64_t now = now_ns(), next = MIN(link_next_ns(c), hold_next_ns(c));

        next = MIN(next, look_next_ns(c));
        struct timespec left = ns_to_timespec(ns_sub(next, now));
        struct pollfd fds[] = {
                        {.fd = client_fd(CLIENT_FD_KICK), .events = POLLIN},
                        {.fd = client_fd(CLIENT_FD_LIFELINE), .events = POLLIN},
                        {.fd = client_fd(CLIENT_FD_BUS), .events = c->bus ? dbus_events(c->bus) : 0},
        };
        uint64_t count;

        int r = ppoll(fds, ELEMENTSOF(fds), next == NSEC_INFINITY ? NULL : &left, NULL);
        if (r < 0 && errno != EINTR)
                return control_cannot_wait(c, errno) ? 0 : -EPERM;
        c->unable_ns = 0;
        if (!control_keeps_fds(c))
                return 0;
        if (fds[0].revents & POLLIN)
                (void) !read(fds[0].fd, &count, sizeof(count));
        return fds[1].revents;
}

void control_main(Control *c) {
        (void) pthread_setname_np(pthread_self(), "xsched");
        (void) prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
        gate_never_wait();

        for (link_init(c);;) {
                control_take_queues(c);
                control_tell_levels(c);
                link_turn(c);
                hold_turn(c);
                look_turn(c);
                int r = control_wait(c);
                if (r < 0)
                        break;
                if (r == 0)
                        continue;
                hold_turn(c); /* before reading why the service woke us: it waits for this */
                link_lifeline(c);
        }
}
