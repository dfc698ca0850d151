/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls: in which order they are answered, and how much of the service's time they may take
 *
 * sd-bus dispatches messages as they arrive, each to its end. Here a call is only taken in (a filter in front of
 * everything), put behind the others of its connection, and dispatched when it is its turn:
 *
 *   - Verdicts first: what hears of edges, ends and due times has a higher priority in the loop than the bus and all
 *     calls. Edges are heard between any two calls and steps, and within those that take long.
 *   - What changes something (registrations, settings) comes before what only asks.
 *   - Users take turns, by the time that their calls took, and within a user its connections do. Calls of one
 *     connection keep their order. Who has used little lately goes first: so a registration, which is a few calls one
 *     after the other, does not wait for everybody's turn at each.
 *   - A user whose calls took more than a share of one CPU for longer than a moment waits, and so does who asks, when
 *     the user's answers were longer than a share of what the bus can take, and others call. Root and the service's own
 *     user do not.
 *   - No answer is made at once that grows with what there is: its handler makes it in steps (call_go_on()).
 *
 * What waits costs memory: calls beyond CALLS_READS_MAX and CALLS_CHANGES_MAX of a user, or with arguments beyond
 * CALL_SIZE_MAX, are refused. What is answered costs memory until the bus takes it: while it does not, nothing is
 * answered. (Whether the caller reads is the bus's to see to: it keeps what it has taken, by its own limits.)
 *
 * Who calls is asked of the bus once for each connection, without waiting for the answer: it comes behind all that
 * waits there to be read. A unique name is never given to another.
 */

#include "service/core/manager.h"

typedef struct Calls Calls;

#define CALL_SIZE_MAX     (64U << 10)
#define CALLS_READS_MAX   256U
#define CALLS_CHANGES_MAX 8192U

/* Of a call whose turn it is: what a handler returns, or 0 where sd-bus is to find who answers. */
typedef int (*call_answer_t)(Manager *m, sd_bus_message *message);

/* `answer` is asked before the bus's objects. Has to be the last that adds a filter to the bus: the last one sees a
 * message first. */
int calls_new(Manager *m, sd_bus *bus, call_answer_t answer, Calls **ret);
Calls *calls_free(Calls *c);

/* What is left to do for a call, in steps of some 10 µs. */
typedef struct CallWork {
        int (*step)(void *userdata); /* > 0: there is more. 0: the answer is sent. < 0: it is to be this error */
        void (*free)(void *userdata);
        void *userdata;
} CallWork;

/* For a method's handler, as its last act: the call goes on with this work. Takes it; without an order of calls all of
 * it is done at once. Returns what the handler returns. */
int call_go_on(Manager *m, sd_bus_message *message, const CallWork *work);

/* For a step: sends an answer of that length. */
void call_sends(Manager *m, size_t size);
