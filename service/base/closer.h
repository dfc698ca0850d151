/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Closer: closes fds that clients share
 *
 * Closing the last copy of a file makes the kernel walk past all its waiters, and closing an end of a socket pair past
 * those at the other end. A client can make that long, so a thread does it, at the ordinary priority. The service
 * manager has copies of these fds, too; these are closed first, so that the last close, the long one, is not the
 * service manager's.
 */

/* Takes the fd, and has the thread close it. Closes it at once where no thread can be started. Does nothing with a
 * negative fd. */
void closer_take(int fd);

/* Waits until all fds are closed, but not for the service manager: the end of the process closes those that are
 * left. */
void closer_finish(void);
