/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Decisions: statistics of how long they take
 *
 * A decision lasts from a client's ready edge, by the client's stamp, to the last verdict that results from it.
 * Ready-to-run is the wait of a launch: from the edge, or from losing the device with work, to the run verdict; 0 where
 * the verdict was run already. Only watched queues count: an entity that is alone on its device has no edges.
 */

#include "queue.h"

/* Called when a queue has become ready by its slot, `since` by the client's stamp, before queue_note_wait(). */
void decision_note_edge(Queue *q, uint64_t since, uint64_t now);

/* Called when all verdicts of a turn are written in which there were edges. */
void decision_end(Manager *m);

/* Called when a ready queue was let run, after `waited_ns`. */
void decision_note_run(Queue *q, uint64_t waited_ns);
