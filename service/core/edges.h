/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Edges: reads readiness from clients' pages, and tells the policy
 *
 * The service hears an edge some time after it happened, but charges time by when it happened: by the client's stamp. A
 * stamp is clamped between the last known event and now, and to EDGE_LATE_MAX before now. So a client that stamps its
 * ends too early saves at most that per edge, and no other client is charged differently. While it is alone on the
 * device (DEVICE_ALONE), only its own numbers depend on the stamps: they count as they are, however late the service
 * hears of them on a busy machine.
 *
 * The service misses edges of a client that is quicker than it: the client is ready at both looks, and was idle in
 * between, or the other way round. The page counts the time in which launches were in flight, which says how long the
 * queue ran between two looks, at most the time between them. The policy is told that time, where an entity is one
 * queue. A client that counts too little gains no more than one that stamps its ends too early.
 *
 * Hand-over. From a run verdict to the launch that waited for it the policy counts run time, though the device is idle;
 * a GPU then switches from one process to the other, which a client reports when it knows (xsched_queue_started()). The
 * same holds between the end of a launch and the start of the next one that waited for room. Together this is 3 to 8 %
 * of short turns. The page's count of time in flight says how much it was, from the verdict until the queue is held, is
 * idle, or is looked at after its first launch; only where no other queue of the entity had work since, and the policy
 * is not told that the queue was idle in between. Of that, at most EDGE_GAP_MAX is reported as kept instead of run. It
 * still counts for the share and for Max=, because the device was taken. Time that was already reported as run is not
 * changed.
 */

#include "client.h"

/* Stamps are clamped to this age unless an entity is alone: a client writes older ones by mistake, or the service was
 * absent. */
#define EDGE_LATE_MAX (2 * NSEC_PER_MSEC)

/* Limit of the hand-over per turn: what is longer counts as this. */
#define EDGE_GAP_MAX (1 * NSEC_PER_MSEC)

/* The clamped time of an event with the client's stamp (0: none). */
uint64_t edge_time(const Queue *q, uint64_t stamp, uint64_t now);

/* Begins to count time in flight anew, because the queue begins to be watched, or its verdict changes. */
void edge_mark(Queue *q, uint64_t now);

/* Called when the queue's verdict changes to run or hold. */
void edge_verdict(Queue *q, bool run, uint64_t now);

/* Looks at the queue's slot, which its client marked as dirty. */
void edge_look(Queue *q);

/* Writes the slot's watch flags where they change. They depend on the state of the device (arbiter.h), on whether the
 * queue is quick (quick.h), and on whether it is to be held. A slot that begins to be watched is looked at then: the
 * hand-shakes of common/page.h. */
void edge_sync_watch(Queue *q);

/* Called before the slot is given back: clears its watch flags. */
void edge_end_watch(Queue *q);
