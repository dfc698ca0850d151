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
 * Remnants. A queue goes when its client says so, or with its client; what it has launched runs on, and is its
 * entity's. So the entity keeps a tail without a queue: it stays in the policy, and is charged as one that was stopped.
 * Whoever makes a queue, launches and lets go of it, again and again, is charged for all of that time.
 *
 * Nobody says when such launches are over. A remnant ends with the process, whose launches its driver ends; and after
 * REMNANT_MAX_NS, which is what the policy believes of any tail. An orderly program has none: it waits for what it has
 * launched, or what stands in front of its runtime keeps the queue until that is over. There is one for each process in
 * an entity, however many queues it lets go, and it is a queue in its user's quota. What nobody had counted
 * (PAGE_OUTSTANDING_UNTRACKED) may be over long since, and leaves none.
 *
 * A client that says too early that it has drained is charged for less than it used, as one that says that it is idle.
 * One that never says so is charged until the policy's bound.
 */

#include "client.h"

/* The queue's word says hold, or run, from now on. */
void tail_begin(Queue *q);
void tail_end(Queue *q, uint64_t at);

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

#define REMNANT_MAX_NS POLICY_TAIL_MAX

/* The queue is about to go. Whether its place in the quota is a remnant's now. Without memory there is none. */
bool remnant_begin(Queue *q);

/* Those of a client that is going, or has moved: their entities are nobody's. */
void remnants_forget_client(const Client *c);

/* Ends what has lasted until now, in this entity, which may go with that. */
void remnants_expire(Entity *e, uint64_t now);

/* All, when there are no queues any more. */
void remnants_free(Manager *m);
