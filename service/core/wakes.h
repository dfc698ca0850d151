/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Wakes: the eventfds of all clients
 *
 * A client shares its eventfd with the service, and can make any number of threads wait for it. A read or write of an
 * eventfd walks its queue of waiters under the queue's lock, and a removal from the queue waits for that lock. So the
 * service neither reads nor writes the eventfd, and never removes it from the epoll instance. It watches edges
 * (EPOLLET): each write is an edge, whether the counter was read or not, and the writer walks the queue. The entry of a
 * client that has ended is silenced, which does not touch the eventfd, and ends with the last copy of the fd
 * (closer.h). The entry names the client by its id, which is never used again. The counter only grows; it is full after
 * 2^64 edges, which only harms the client itself.
 *
 * The manager hears edges between two events of the loop, and during long work at each call of turn_look(): so an edge
 * waits for some 10 µs of other work, and not for all of it.
 *
 * The eventfds have their own epoll instance, which the event loop's does not watch, because adding to a watched
 * instance takes a system-wide lock.
 *
 * All clients of a user share one budget of wake-ups. Beyond it they are silent: their pages, which hold all that the
 * eventfds could say, are looked at once per WAKES_TICK_NS instead. All users in that state share one budget. No client
 * is disconnected for being quick.
 */

#include "manager.h"

/* `on_look` does what turn_look() says: it hears edges by wakes_turn(), and writes the verdicts. */
int wakes_init(Manager *m, void (*on_look)(Manager *m));
void wakes_done(Manager *m);

/* Watches the client's eventfd. */
int wakes_add(Client *c);

/* Called before the client's eventfd is closed: stops watching it. */
void wakes_forget(Client *c);

/* Hears all edges so far: the turn is then due to end. Returns how many clients woke the service. */
unsigned wakes_turn(Manager *m);

/* Sleeps until an edge, or `until`, and hears the edges. Returns 0 or a negative errno; *ret_n_woke is that of
 * wakes_turn(). It may return earlier without an edge: a timeout costs as much as the rest of a sleep, because the
 * CPU's timer is set, and set back by the edge. So a longer one is kept by an alarm, which goes on from sleep to sleep.
 */
int wakes_sleep(Manager *m, uint64_t now, uint64_t until, unsigned *ret_n_woke);
