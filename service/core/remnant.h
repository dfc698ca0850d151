/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Remnants: what queues that are gone still have in flight
 *
 * A queue goes when its client says so, or with its client; what it has launched runs on, and is its
 * entity's. So the entity keeps a tail without a queue: it stays in the policy, and is charged as one that was stopped.
 * Whoever makes a queue, launches and lets go of it, again and again, is charged for all of that time.
 *
 * Nobody says when such launches are over. A remnant ends with the process, whose launches its driver ends; and after
 * REMNANT_MAX_NS, which is what the policy believes of any tail. An orderly program has none: it waits for what it has
 * launched, or what stands in front of its runtime keeps the queue until that is over. There is one for each process in
 * an entity, however many queues it lets go, and it is a queue in its user's quota. What nobody had counted
 * (PAGE_OUTSTANDING_UNTRACKED) may be over long since, and leaves none.
 */

#include "client.h"

#define REMNANT_MAX_NS POLICY_TAIL_MAX

/* The queue is about to go. Whether its place in the quota is a remnant's now. Without memory there is none. */
bool remnant_begin(Queue *q);

/* Those of a client that is going, or has moved: their entities are nobody's. */
void remnants_forget_client(const Client *c);

/* Ends what has lasted until now, in this entity, which may go with that. */
void remnants_expire(Entity *e, uint64_t now);

/* All, when there are no queues any more. */
void remnants_free(Manager *m);
