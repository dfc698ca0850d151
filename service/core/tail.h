/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tails: what held queues still have in flight
 *
 * A hold stops launches, and what was launched runs on: until it has ended the device is its own, and the policy
 * charges it (policy/drain.h). A queue has a tail from the store of a hold that found something in flight (by
 * outstanding and waiters, read after it) until the client says that it has drained, or is idle; until its driver has
 * taken it off the device, where the hold reaches that far; or until it may run again. The tail of an entity is over
 * with the last of its queues'. So is that of an entity which the policy holds and we do not: a gang's, or one that
 * nothing holds here.
 *
 * Who is suspended, stopped or frozen with something in flight has a tail from then on, and does not want the device.
 * Of a process that does not run nobody hears when its launches have ended: it is charged for POLICY_TAIL_MAX, since it
 * could be stopped just before any of them ended.
 *
 * A client that says too early that it has drained is charged for less than it used, as one that says that it is idle.
 * One that never says so is charged until the policy's bound.
 */

#include "client.h"

/* The queue's word says hold, or run, from now on. */
void tail_begin(Queue *q);
void tail_end(Queue *q, uint64_t at);

/* Something that is no queue's any more runs on in the entity, or has ended: remnant.h. */
void entity_begin_tail(Entity *e, uint64_t now);
void entity_end_tail(Entity *e, uint64_t at);

/* The last queue of the entity that could go on was stopped, and something is in flight. */
void tails_of_stopped(Entity *e, uint64_t at);

/* The process was held by privilege, with all its queues. */
void tail_end_of(Client *c);

/* Something was heard of the queue: whether it has drained, by its slot. `at`: when, if so. */
void tail_look(Queue *q, uint64_t at);

/* The queue joins its entity, or is about to leave it. */
void tail_join(Queue *q);
void tail_leave(Queue *q);

/* What the policy's hold of the entity asks for has been written. */
void tail_settle(Entity *e, uint64_t now);

/* The time has come to look whether drivers have taken off what has a tail. */
void tail_review(Entity *e, uint64_t now);
