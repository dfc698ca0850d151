/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Strangers: descriptors that come in over the bus and are no pidfds
 *
 * A caller may send any descriptor along with any message, and sd-bus closes them with the message: in the thread
 * that decides. To close a descriptor can take as long as its owner likes (SO_LINGER; a file system that is a process).
 * No call takes one, and the system bus passes none on (dbus/org.xsched.Scheduler.conf). Other buses may: so each
 * descriptor of the bus connection is looked at before sd-bus sees it. A pidfd stays: the bus itself tells by one who
 * has a connection. In the place of any other one sd-bus finds -EBADF, and a thread of its own closes the stranger.
 *
 * A thread that closes a file of FUSE may never come back, and dbus-daemon, which has closed its own copy before, may
 * not either. Guests' sockets are closed by other threads (ends.h), which also put them aside; what is closed here
 * cannot be: each close() of a copy asks the file system, and not only the last one.
 *
 * sd-bus has no hook for that: this program's recvmsg() is in front of the C library's, for all that is linked to
 * it.
 */

/* Descriptors that recvmsg() finds at this socket are looked at from now on; of no other socket. -EBADF: of none. */
void strangers_watch(int fd);
