/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How the launches of a queue are intercepted, and whether a hold stops them
 */

#include "queue.h"

/* Called when the slot has another value, which the client can write: takes it unless it is unknown. */
void queue_take_hooked(Queue *q, uint32_t v);

/* Reads from the slot how its launches are seen. Cheap. */
static inline PageHooked queue_look_hooked(Queue *q) {
        uint32_t v = atomic_load_explicit(&q->page_slot->hooked, memory_order_relaxed);

        if (unlikely(v != q->hooked))
                queue_take_hooked(q, v);
        return q->hooked;
}

/* Called when what can stop the queue may have changed: updates `unheld`. */
void queue_review_unheld(Queue *q);

/* Sets `unheld`, counts it, and names it in Degraded. */
void queue_count_unheld(Queue *q, bool unheld);
