/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The local gate of a queue: include/xsched/local.h
 *
 * Each launch finds the record through the queue, without a lock. The record's memory is never freed, only used for the
 * next local gate. So a thread that read the pointer and then lost the CPU finds a dead record, or that of another
 * queue: it takes a reference, and then reads the queue's pointer once more.
 */

#include <stdbool.h>

#include "include/xsched/local.h"

typedef struct QueueLocal QueueLocal;

/* Passes the local gate. Returns true: the launch has to be counted; false: the queue has no local gate any more. */
bool local_begin(XschedQueue *q, bool wait);
void local_complete(XschedQueue *q, uint32_t n);
/* Returns the lower of `limit` and the local gate's limit, where 0 is unlimited. */
uint32_t local_limit(XschedQueue *q, uint32_t limit);
bool local_is_held(XschedQueue *q);

/* Removes the local gate of a queue that ends. */
void local_drop(XschedQueue *q);

/* In a child after fork: removes the local gate without calling release(). */
void local_forget_all(XschedQueue *q);
