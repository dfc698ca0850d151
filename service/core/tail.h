/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tail: launches in flight of a held queue
 *
 * A hold stops new launches, while launches in flight run on. Until they have ended the device is the held entity's,
 * and the policy charges it (policy/drain.h). A queue has a tail from the store of a hold that found launches in flight
 * (by `outstanding` and `waiters`, read after it) until the client says that it has drained or is idle; until its
 * driver has taken it off the device, where the hold reaches that far; or until it may run again. An entity's tail ends
 * with the last of its queues' tails. It also ends when the policy holds the entity and the service does not: in a
 * gang, or where holds have no effect.
 *
 * An entity that is suspended, stopped or frozen with launches in flight has a tail, too, and does not want the device.
 * A stopped process cannot tell when its launches have ended: it is charged for POLICY_TAIL_MAX, or it could avoid
 * charges by being stopped just before they end.
 *
 * Where somebody runs beside a tail, the time is divided between the two: overlaps.h.
 *
 * A client that reports too early that it has drained is charged for less than it used, like one that reports idle too
 * early. One that never reports it is charged up to the policy's bound.
 */

#include "client.h"

/* Called when the queue's verdict changed to hold; or to run. */
void tail_begin(Queue *q);
void tail_end(Queue *q, uint64_t at);

/* Ends the queue's tail, if it has one, because its launches have ended. */
void tail_drained(Queue *q, uint64_t at);

/* Called when a remnant of the entity begins, or has ended: remnant.h. */
void entity_begin_tail(Entity *e, uint64_t now);
void entity_end_tail(Entity *e, uint64_t at);

/* Called when the last running queue of the entity was stopped with launches in flight. */
void tails_of_stopped(Entity *e, uint64_t at);

/* Called when the client's process was held by privilege: ends the tails of all its queues. */
void tail_end_of(Client *c);

/* Called after the queue was heard: ends its tail at `at` when its slot says that it has drained. */
void tail_look(Queue *q, uint64_t at);

/* Called after the queue joined its entity, and before it leaves it. */
void tail_join(Queue *q);
void tail_leave(Queue *q);

/* Called when the words for the policy's hold of the entity are written. */
void tail_settle(Entity *e, uint64_t now);

/* Called when the device's policy has decided, before words are written. A new policy takes all entities for running
 * ones, and waits for the tails of those that it holds; but those that were held before have none that begins now. The
 * policy hears of that, and decides again. */
void tails_settle_held(Device *d);

/* Called at Entity.tail_look_at: ends tails of queues that their drivers have taken off the device. */
void tail_review(Entity *e, uint64_t now);
