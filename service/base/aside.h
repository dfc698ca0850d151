/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Aside: a second table of descriptors, for those that may never close
 *
 * A thread may have its own table. A descriptor whose close may block for ever is moved into that: there it takes no
 * place among the process's descriptors, and only a thread without other work waits for it.
 *
 * Two threads share such a table. One takes what is moved and never closes anything, so that it never waits; the other
 * closes, one after the other. They stay as long as the process.
 */

#include <stddef.h>

typedef struct Aside Aside;

/* Called by the table's own thread. */
typedef void (*aside_closed_t)(void *userdata);

/* Waits for the threads to be there. Negative errno: the kernel has no such tables, or there may be no further
 * thread. */
int aside_new(aside_closed_t closed, Aside **ret);

/* Moves a descriptor, and has it closed there. Takes it on success. Must not be called by two threads at once. */
int aside_put(Aside *a, int fd, void *userdata);

/* How many have room in one. */
size_t aside_room(void);
