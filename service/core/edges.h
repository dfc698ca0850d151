/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Edges: what clients say through their pages, and what the policy is told of it
 *
 * An edge is heard of some time after it happened, and time is charged by when it happened: by the client's stamp. A
 * stamp counts between what was known before and now, and for EDGE_LATE_MAX at most: so a client that stamps its ends
 * too early is charged less by that for each of its edges, and nobody else is charged differently.
 *
 * Of a client that is quicker than we are, edges are missed: it is ready as it was before, and has been idle in
 * between, or the other way round. What it counts itself, the time that it has had something in flight, says for how
 * long it ran between two looks; as long as there is between them at most. The policy is told so much, where an entity
 * is one queue. Who counts too little is charged as one that stamps its ends too early.
 *
 * Hand-over. From the verdict to the launch that waited for it the policy counts run time, and the device had nothing
 * to do; and so it is between the end of a launch and the start of the next that waited for room. Both together are 3
 * to 5 % of what short turns come to. What the client counts itself, from the verdict until the queue is held, is idle,
 * or is looked at after its first launch, says how much it was, where the entity is one queue and has not been idle
 * before that; EDGE_GAP_MAX of it at most is told as kept and not as run. It remains a part of the share and of what
 * Max= counts: it was the device's time. What was told as run time meanwhile stays that.
 */

#include "client.h"

/* Older than this is a client's fancy, or the fault of a service that was absent. */
#define EDGE_LATE_MAX (2 * NSEC_PER_MSEC)

/* Of what a turn had nothing in flight for more than that is not believed. */
#define EDGE_GAP_MAX (1 * NSEC_PER_MSEC)

/* When something happened, by the client's stamp (0: none), as far as it is believed. */
uint64_t edge_time(const Queue *q, uint64_t stamp, uint64_t now);

/* What it has had in flight counts from now on: it is watched from now on, or may launch, or may not. */
void edge_mark(Queue *q, uint64_t now);

/* Its word says run, or hold, from now on. */
void edge_verdict(Queue *q, bool run, uint64_t now);

/* Looks at the slot, which was named as dirty. */
void edge_look(Queue *q);

/* Writes which edges the slot tells, where that is to be another: it follows from the state of the device (arbiter.h),
 * from whether the queue is quick (quick.h), and from whether it is to be held. What begins to be watched is looked at
 * then: the hand-shakes of common/page.h. */
void edge_sync_watch(Queue *q);

/* The slot is about to be given back: it tells none. */
void edge_end_watch(Queue *q);
