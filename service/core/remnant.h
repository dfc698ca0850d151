/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Remnant: launches in flight of freed queues
 *
 * When a queue is freed, its launches run on, and its entity is charged for them. So the entity keeps a tail without a
 * queue: it stays in the policy, and is charged like a stopped entity. A client that makes a queue, launches and frees
 * it, again and again, is charged for all of that time.
 *
 * The service is not told when these launches end. A remnant ends with the process, whose launches the driver then
 * ends, and after REMNANT_MAX_NS, the policy's limit for any tail. An orderly program leaves none: it waits for its
 * launches, or the library in it keeps the queue until they have ended. An entity has one remnant per process, for any
 * number of freed queues; it counts as a queue in the user's quota. Uncounted launches (PAGE_OUTSTANDING_UNTRACKED) may
 * have ended long ago, and leave none.
 */

#include "client.h"

#define REMNANT_MAX_NS POLICY_TAIL_MAX

/* Called before a queue is freed. Returns whether a remnant now has the queue's place in the quota. Makes none without
 * memory. */
bool remnant_begin(Queue *q);

/* Called when a client ends or moves: its entities, which remnants keep, no longer name it. */
void remnants_forget_client(const Client *c);

/* Ends the remnants of the entity that are due at `now`; may free the entity. */
void remnants_expire(Entity *e, uint64_t now);

/* Frees all remnants, when there are no queues any more. */
void remnants_free(Manager *m);
