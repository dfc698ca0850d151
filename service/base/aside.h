/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Aside: a second table of descriptors, for those whose close may never return
 *
 * A thread may have its own table of descriptors. A descriptor whose close may block for ever is moved into that table:
 * there it does not count among the process's descriptors, and only a thread without other work waits for it.
 *
 * Two threads share such a table. The first takes moved descriptors, and never closes any, so it never blocks. The
 * second closes them, one after the other. Both stay as long as the process.
 */

#include <stddef.h>

typedef struct Aside Aside;

/* Called by the table's own thread. */
typedef void (*aside_closed_t)(void *userdata);

/* Returns when both threads run. Negative errno: the kernel has no such tables, or no further thread may be started. */
int aside_new(aside_closed_t closed, Aside **ret);

/* Moves a descriptor into the table, where it is closed. Takes it on success. Must not be called by two threads at
 * once. */
int aside_put(Aside *a, int fd, void *userdata);

/* Returns how many descriptors one table holds. */
size_t aside_room(void);
