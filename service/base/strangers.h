/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Strangers: descriptors that come in over the bus and are no pidfds
 *
 * A caller may send any descriptor along with any message, and sd-bus closes them with the message, on the thread of
 * the event loop. Closing a descriptor can take as long as its owner likes (SO_LINGER; a file system that is a
 * process). No call takes one, and the system bus passes none on (dbus/org.xsched.Scheduler.conf). Other buses may, so
 * each descriptor that arrives on the bus connection is looked at before sd-bus sees it. A pidfd stays: the bus itself
 * names the process of a connection by one. Any other descriptor is replaced by -EBADF, and a thread of its own closes
 * it.
 *
 * A thread that closes a file of FUSE may never come back. Neither may dbus-daemon, which closed its own copy before.
 * Guests' sockets are closed by other threads (ends.h), which can put them aside. Descriptors here cannot be put aside:
 * each close() of a copy asks the file system, not only the last one.
 *
 * sd-bus has no hook for this, so this program defines recvmsg() in front of the C library's, for all that is linked to
 * it.
 */

/* From now on recvmsg() looks at descriptors that arrive on this socket, and on no other. -EBADF: on none. */
void strangers_watch(int fd);
