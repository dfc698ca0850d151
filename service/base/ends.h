/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ends of guests: sockets at whose other end a program may have sent anything
 *
 * A program may send descriptors along with its bytes. Nobody here takes any: they stay in the kernel, with the socket.
 * Who has received one has to close it, and for a file of the program's own file system (FUSE) that takes as long as
 * the program likes, and no signal ends it. What is not received is never closed, only let go of, with the socket; of
 * that, too, the kernel may make a wait (SO_LINGER), which a signal ends.
 *
 * So a socket is read without room for descriptors, and is closed by a thread that a signal wakes. Of a user one thread
 * at most closes at a time: a user who makes that long has his own wait, and no other's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Of one user: so many wait among our descriptors. What comes beyond goes aside. */
#define ENDS_HERE_MAX 64U

/* A socket whose other end has come. */
void end_prepare(int fd);

/* recv() with MSG_PEEK, without waiting. -EBADMSG: descriptors came with that. What was seen can be taken by recv() of
 * as many bytes. */
ssize_t end_peek(int fd, void *data, size_t size);

/* Of a socket that nobody writes to any more: reads on, a little. Whether nothing was left, so that to close it takes
 * no time; *ret_strange: descriptors came, and are in there. */
bool end_is_drained(int fd, bool *ret_strange);

/* Has it closed by a thread. `user`: whose it is. Without memory it stays open. However many of his wait, that takes no
 * time. */
void end_close(int fd, uid_t user);

/* How many of this user wait among our descriptors for a thread that closes them. Those that are aside (aside.h) are
 * not counted. */
size_t ends_left(uid_t user);
