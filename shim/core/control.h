/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The control thread: the only one that talks to the service
 *
 * One per process, started by the first queue, and asleep unless a queue comes or goes, the service has something to
 * say, or a connection is to be tried again. It registers the process and its queues, seats their gates in the page,
 * calls drain(), and opens all gates when the service goes.
 *
 * control.c is the thread and the queues' way through their states; link*.c is the connection: bus, registration, page,
 * lifeline; hold.c brings the queues of backends that can stop submitted work to what the page says.
 */

#include "shim/core/queue.h"
#include "shim/dbus/dbus.h"

/* Registered calls that may wait for their reply at a time: bus daemons limit them per connection. */
#define CONTROL_CALLS_MAX 32U

typedef enum LinkState {
        LINK_DOWN,        /* no connection */
        LINK_WAITING,     /* one, and no service on it that takes us */
        LINK_REGISTERING, /* RegisterClient is under way */
        LINK_ATTACHED,    /* page and lifeline are there */
        LINK_CUT,         /* they are, and the connection is not */
        _LINK_STATE_MAX,
} LinkState;

const char *link_state_to_string(LinkState s);

/* The id of a queue that is gone here and not yet there. */
typedef struct Goner {
        struct Control *control;
        uint64_t id;
        bool sent;
        struct Goner *next;
} Goner;

typedef struct Control {
        /* the connection */
        LinkState state;
        Dbus *bus;
        bool direct;         /* it is the service itself, by its own socket */
        bool socket_refused; /* by the socket, the last time: the bus is next */
        uint64_t move_at_ns; /* from a bus to the socket; NSEC_INFINITY */
        char *object;        /* our client on the bus */
        Page page;
        unsigned n_pages; /* mapped so far */
        uint64_t retry_at_ns;
        uint64_t backoff_ns;
        uint64_t attached_at_ns;
        uint64_t random;
        bool lost; /* ends the turn with link_down() */
        bool cut;  /* ends the turn with link_cut() */
        bool told; /* that it runs unscheduled */
        bool hints_due;

        /* calls */
        unsigned n_calls;
        uint64_t stalled_until_ns; /* the service is not there: calls would only fail */
        Goner *goners;

        /* queues */
        XschedQueue *queues[_QUEUE_STATE_MAX];
        XschedQueue *by_slot[PAGE_SLOTS_MAX];
        uint64_t n_attached;

        uint64_t look_at_ns; /* look.c; 0: nobody has asked */

        /* hold.c: one batch */
        uint64_t n_stoppable; /* queues with apply() */
        XschedQueue *batch[PAGE_SLOTS_MAX];
        void *batch_userdata[PAGE_SLOTS_MAX];
} Control;

/* What the thread does. Returns only when there is no memory for it. */
void control_main(void);

/* control.c, for link.c */
void control_set_queue_state(Control *c, XschedQueue *q, QueueState state);
void control_attach_queue(Control *c, XschedQueue *q, uint64_t id, uint32_t slot);
void control_finish_queue(Control *c, XschedQueue *q); /* dead, and in no hands any more */
void control_detach_all(Control *c);                   /* every gate open, every queue new */
void control_retry_refused(Control *c);
void control_recall(Control *c); /* queues whose registration gets no reply any more: new again */
void control_drain_all(Control *c);

/* hold.c */
void hold_turn(Control *c);                         /* every queue to its verdict, a batch per device */
void hold_forget_queue(Control *c, XschedQueue *q); /* lets go a queue that goes */
uint64_t hold_next_ns(const Control *c); /* when hold_turn() is to be called again; NSEC_INFINITY */

/* link.c */
void link_init(Control *c);
void link_turn(Control *c);     /* what is due: connect, register, send, receive */
void link_lifeline(Control *c); /* the lifeline has something to read */
void link_forget_queue(Control *c, uint64_t id);
uint64_t link_next_ns(const Control *c); /* when link_turn() is to be called again; NSEC_INFINITY */
