/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Closing what a client shares
 *
 * Who closes the last copy of a file walks past all that wait for it, and who closes an end of a socket pair past all
 * that wait at the other: a client can make that long, so it is a thread's work, at the ordinary priority. The service
 * manager has copies of these fds, too; they are closed there first, because it has more to do than we.
 */

/* Takes the fd; negative ones are none. Closes it at once where there is no thread to be had. */
void closer_take(int fd);

/* Waits until all is closed, unless the service manager is waited for: the end of the process closes what is left. */
void closer_finish(void);
