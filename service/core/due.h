/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Due: something that core does at a certain time
 *
 * A timer of sd-event costs a system call whenever it is moved, and the service moves such times with most edges. These
 * cost none: the event loop sleeps until the earliest of them (manager_turn()). A due time is moved in O(log n).
 *
 * Thread safety: none; the event loop's thread only.
 */

#include <stdint.h>

#include "policy/avl.h"

typedef struct Due Due;

typedef void DueHandler(Due *d);

/* Those that are on, the earliest first. All zero is empty. */
typedef struct Dues {
        Avl order;
} Dues;

struct Due {
        uint64_t at;           /* CLOCK_MONOTONIC ns; NSEC_INFINITY: off */
        uint64_t by, first_by; /* the latest time; the first of those of its subtree in `order` */
        DueHandler *handler;
        Dues *dues;
        AvlNode order; /* in Dues.order, while it is on */
};

/* Initializes a due time, which is off. dues_turn() calls the handler, after it has turned the due time off. */
void due_init(Due *d, Dues *dues, DueHandler *handler);
void due_done(Due *d); /* also of one that is all zero */

/* NSEC_INFINITY: turns it off. */
void due_set(Due *d, uint64_t at);

/* The same for something that need not be done at once, but by a later time: with whatever else the loop wakes for
 * until then. */
void due_set_by(Due *d, uint64_t at, uint64_t by);

/* When the earliest is due, and by when one has to be done at the latest; NSEC_INFINITY: none is. */
uint64_t dues_next(const Dues *s);
uint64_t dues_latest(const Dues *s);

/* Calls the handlers of due times that have come, at most as many as were on before: a handler that sets its due time
 * again does not keep the loop. Returns their number. */
unsigned dues_turn(Dues *s, uint64_t now);
