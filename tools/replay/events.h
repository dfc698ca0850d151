/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Events: a heap, by their time. Events of the same time come in the order in which they were pushed.
 */

#include "common/macro.h"
#include "common/time-util.h"

typedef enum EventKind { EVENT_DUE, EVENT_DRAINED, EVENT_WAKE } EventKind;

/* Names its object by numbers, because the object may be gone by then. */
typedef struct Event {
        uint64_t at_ns, seq;
        uint64_t device, entity;
        EventKind kind;
} Event;

typedef struct Events {
        Event *events;
        size_t n;
        uint64_t seq;
        bool failed; /* memory ran out: some are missing */
} Events;

void events_done(Events *h);
void events_push(Events *h, Event e);

/* There has to be one. */
Event events_pop(Events *h);

/* NSEC_INFINITY: there is none. */
static inline uint64_t events_next(const Events *h) {
        return h->n > 0 ? h->events[0].at_ns : NSEC_INFINITY;
}
