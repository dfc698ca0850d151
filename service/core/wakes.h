/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Wakes: the eventfds of all clients
 *
 * A client has the same eventfd as we, and can have as many wait for it as it has memory for. Whoever reads or writes
 * an eventfd walks the queue of those who wait, with the queue's lock held; so does who takes himself off that queue,
 * for as long as another walks. So an eventfd is neither read nor written here, and never taken off: it is watched by
 * edges (EPOLLET), each write is an edge whether the counter was read or not, and the queue is walked by who writes. A
 * client that is gone is silenced, which touches nothing of its own, and its entry goes with the last copy of the fd
 * (closer.h), wherever that is. The entry names the client by its number, which is never used again. The counter only
 * grows; one that is full, which takes 2^64 honest edges, is a client's own fault.
 *
 * Edges are heard between two events of the loop's, and in between of what takes long, at the places that call
 * turn_look(): so an edge waits for some 10 µs of what is done for others, and not for all of it.
 *
 * They have an epoll instance of their own, beside the event loop's and not within it, because to add to an instance
 * that another watches takes a lock of the whole system.
 *
 * A user's wake-ups have a budget, however many clients the user has. Above it those clients are silent, and their
 * pages, which say all that their eventfds could, are looked at once per WAKES_TICK_NS; users who are looked at so
 * share one budget. Nobody is cut off for being quick.
 */

#include "manager.h"

int wakes_init(Manager *m);
void wakes_done(Manager *m);

/* Watches the client's eventfd. */
int wakes_add(Client *c);

/* Before its eventfd is closed: it is heard of no more. */
void wakes_forget(Client *c);

/* Hears what there is to be heard. Returns how many clients woke us. */
unsigned wakes_turn(Manager *m);
