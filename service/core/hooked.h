/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How the launches of a queue are intercepted, and whether a hold stops them
 */

#include "queue.h"

/* Reads from the slot how its launches are seen. Cheap. */
PageHooked queue_look_hooked(Queue *q);

/* Called when what can stop the queue may have changed: updates `unheld`. */
void queue_review_unheld(Queue *q);

/* Sets `unheld`, counts it, and names it in Degraded. */
void queue_count_unheld(Queue *q, bool unheld);
