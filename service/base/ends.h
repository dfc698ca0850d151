/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ends: closes sockets of guests, in which a program may have sent anything
 *
 * A program may send descriptors along with its bytes. The service receives none of them: they stay in the kernel, with
 * the socket. A received descriptor has to be closed, and for a file in the program's own file system (FUSE) that takes
 * as long as the program likes, and no signal ends it. A descriptor that was not received is only released with the
 * socket. The kernel may wait in that, too (SO_LINGER), but a signal ends this wait.
 *
 * So a socket is read without room for descriptors, and a thread closes it that a signal can wake. At most one thread
 * closes sockets of one user at a time: a user who makes that take long delays only the user's own sockets.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* So many sockets of one user wait among the process's descriptors. Further ones are put aside (aside.h). */
#define ENDS_HERE_MAX 64U

/* Called for each new socket of a guest. */
void end_prepare(int fd);

/* As recv() with MSG_PEEK, without waiting. -EBADMSG: descriptors came along. A recv() of as many bytes then takes
 * them. */
ssize_t end_peek(int fd, void *data, size_t size);

/* Reads a little more from a socket whose other end writes no more. Returns whether nothing is left: then closing it
 * takes no time. *ret_strange: descriptors are in it. */
bool end_is_drained(int fd, bool *ret_strange);

/* Has a thread close the user's socket. Takes no time, however many of the user's sockets wait. Without memory the
 * socket stays open. */
void end_close(int fd, uid_t user);

/* Returns how many sockets of the user wait among the process's descriptors to be closed, without those put aside. */
size_t ends_left(uid_t user);
