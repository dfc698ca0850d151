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

/* Takes the fd; negative ones are none. Closes it at once where there is no thread to be had. */
void closer_take(int fd);

/* Waits until all is closed, unless the service manager is waited for: the end of the process closes what is left. */
void closer_finish(void);
