/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The control thread: the only one that talks to the service
 *
 * One per process, started by the first queue. It sleeps unless a queue comes or goes, the service sends something, or
 * a connection attempt is due. It registers the process and its queues, connects their gates to slots of the page,
 * calls drain(), and opens all gates when the service goes.
 *
 * control.c is the thread and the states of its queues; link*.c is the connection: bus, registration, page, lifeline;
 * hold.c brings the queues of backends that can stop submitted work to the verdicts in the page.
 */

#include "shim/core/queue.h"
#include "shim/dbus/dbus.h"

/* Calls that may wait for a reply at a time: bus daemons limit them per connection. */
#define CONTROL_CALLS_MAX 32U

typedef enum LinkState {
        LINK_DOWN,        /* no connection */
        LINK_WAITING,     /* a connection, and no service on it that accepts us */
        LINK_REGISTERING, /* RegisterClient is under way */
        LINK_ATTACHED,    /* page and lifeline are valid */
        LINK_CUT,         /* page and lifeline are valid, the connection is lost */
        _LINK_STATE_MAX,
} LinkState;

/* The id of a queue that was dropped here and is still registered with the service. */
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
        bool direct;         /* the connection is to the service's own socket, not to a bus */
        bool socket_refused; /* the socket refused us the last time: try the bus next */
        bool hung_up;        /* ... by hanging up, as a service does that ends */
        uint64_t move_at_ns; /* when to move from a bus to the socket; NSEC_INFINITY: not */
        char *moves_to;      /* the name's owner because of whom; its socket is tried once */
        char *object;        /* object path of our client */
        Page page;
        unsigned n_pages; /* mapped so far */
        uint64_t retry_at_ns;
        uint64_t backoff_ns;
        uint64_t attached_at_ns;
        uint64_t random;
        bool lost; /* ends the turn with link_down() */
        bool cut;  /* ends the turn with link_cut() */
        bool told; /* link_tell() has reported that the process runs unscheduled */
        bool hints_due;
        uint64_t unable_ns; /* how long the thread sleeps because it cannot wait for anything; 0: it can */

        /* calls */
        unsigned n_calls;
        uint64_t stalled_until_ns; /* no calls until then, because the service is absent */
        Goner *goners;

        /* queues */
        XschedQueue *queues[_QUEUE_STATE_MAX];
        XschedQueue *by_slot[PAGE_SLOTS_MAX];
        uint64_t n_attached;

        uint64_t look_at_ns; /* look.c; 0: no look was asked for */

        /* hold.c: one batch */
        uint64_t n_stoppable; /* queues with apply() */
        XschedQueue *batch[PAGE_SLOTS_MAX];
        void *batch_userdata[PAGE_SLOTS_MAX];
} Control;

/* The thread's main function, with memory that is all zero. Returns only when it may not sleep. */
void control_main(Control *c);

/* control.c, for link.c */
void control_set_queue_state(Control *c, XschedQueue *q, QueueState state);
void control_attach_queue(Control *c, XschedQueue *q, uint64_t id, uint32_t slot);
void control_finish_queue(Control *c, XschedQueue *q); /* frees a dead queue that no thread holds */
void control_detach_all(Control *c);                   /* opens every gate; every queue is new again */
void control_retry_refused(Control *c);
void control_recall(Control *c); /* queues whose registration lost its reply are new again */
void control_drain_all(Control *c);
