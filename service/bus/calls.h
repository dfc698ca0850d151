/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls: the order in which calls are answered, and their limits of time and memory
 *
 * sd-bus dispatches messages as they arrive, each to its end. Here a filter in front of all others takes each call,
 * queues it behind the others of its connection, and dispatches it when it is its turn:
 *
 *   - Verdicts first: sources of edges, ends and due times have a higher priority in the loop than the bus and all
 *     calls. Edges are heard between any two calls and steps, and within long ones.
 *   - Calls that change something (registrations, settings) come before calls that only read.
 *   - Users take turns, by the time that their calls took, and within a user its connections do. Calls of one
 *     connection keep their order. A user who used little lately goes first: so a registration, a few calls one
 *     after the other, does not wait for all other users at each.
 *   - A user waits whose calls took more than a share of one CPU for longer than a moment. So does a user whose answers
 *     were longer than a share of what the bus can take, while others call. Root and the service's own user do not.
 *   - An answer that grows with the number of objects is made in steps (call_go_on()).
 *
 * Waiting calls cost memory: calls beyond CALLS_READS_MAX and CALLS_CHANGES_MAX of a user, or with arguments beyond
 * CALL_SIZE_MAX, are refused. Answers cost memory until the bus takes them: while it does not, no call is answered.
 * (The bus, by its own limits, deals with callers that do not read.)
 *
 * The bus is asked once per connection who calls, asynchronously, because the answer comes behind all messages that
 * wait to be read. Until then a connection may have about sixty calls waiting: a caller that sends more at once waits
 * for the answer to its first one before. A unique name is never used again.
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"

typedef struct Calls Calls;
typedef struct Caller Caller;

#define CALL_SIZE_MAX     (64U << 10)
#define CALLS_READS_MAX   256U
#define CALLS_CHANGES_MAX 8192U

/* Answers a call whose turn it is: returns as a handler does, or 0 to let sd-bus find the handler. */
typedef int (*call_answer_t)(Manager *m, sd_bus_message *message);

/* `answer` is asked before the bus's objects. Has to be the last that adds a filter to the bus: the last one sees a
 * message first. */
int calls_new(Manager *m, sd_bus *bus, call_answer_t answer, Calls **ret);
Calls *calls_free(Calls *c);

/* The bus on which the service's objects are. NULL: there is none. */
sd_bus *calls_bus(const Calls *c);

/* The work of a call that is made in steps of some 10 µs. */
typedef struct CallWork {
        int (*step)(void *userdata); /* > 0: there is more. 0: the answer is sent. < 0: answer with this error */
        void (*free)(void *userdata);
        void *userdata;
} CallWork;

/* Called last in a method's handler: makes the answer by this work, which it takes over. Without Manager.calls all
 * steps are done at once. Returns the handler's result. */
int call_go_on(Manager *m, sd_bus_message *message, const CallWork *work);

/* Called by a step that sends an answer of `size` bytes. */
void call_sends(Manager *m, size_t size);

/* Called by a guest's filter, within its turn: answers the call, or queues it. Returns the filter's result. */
int caller_answer(Caller *k, sd_bus_message *message, sd_bus_error *error);
