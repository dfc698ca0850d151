/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Decisions: how long they take
 *
 * A decision goes from a client's ready edge, by the client's stamp, to the last verdict that follows from it. From
 * ready to run is what a launch sees: from the edge, or from losing the device while there was work, to the word that
 * says run; 0 where it said so all the time. Only what is watched counts: who is alone on a device has no edges.
 */

#include "queue.h"

/* A queue has become ready, as is known from its slot: before queue_note_wait() hears of it. */
void decision_note_edge(Queue *q);

/* Verdicts are written, or none had to be. */
void decision_end(Manager *m);

/* A ready queue may run, after so long. */
void decision_note_run(Queue *q, uint64_t waited_ns);
