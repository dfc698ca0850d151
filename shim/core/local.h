/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The local gate of a queue: include/xsched/local.h
 *
 * A record is found by the queue on each launch, without a lock. Its memory is never given back, only used for the next
 * local gate, so who has read the pointer and lost the CPU finds a record that is dead, or another queue's: he takes a
 * reference, and looks at the queue once more.
 */

#include <stdbool.h>

#include "include/xsched/local.h"

typedef struct QueueLocal QueueLocal;

/* The launch passes the local gate, and is to be counted; false: there is none any more. */
bool local_begin(XschedQueue *q, bool wait);
void local_complete(XschedQueue *q, uint32_t n);
/* Launches in flight at most: the less of both, where 0 is unlimited. */
uint32_t local_limit(XschedQueue *q, uint32_t limit);
bool local_is_held(XschedQueue *q);

/* The queue ends, and has no local gate then. */
void local_drop(XschedQueue *q);

/* In a child after fork: none has one, and nobody is told. */
void local_forget_all(XschedQueue *q);
