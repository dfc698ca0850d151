/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The door: the service's own socket, beside the bus
 *
 * A registration over the bus waits for the bus daemon, one process that any user can keep busy. At the socket a thread
 * lets programs in, even while the event loop is busy. Relays (relay.h) carry their bytes, by user, so that a user who
 * slows the kernel down slows few others.
 *
 * A guest is the process that connected, as the kernel names it: by a pidfd (from Linux 6.5 on), else by its pid, for
 * which a pidfd is opened at once. A process that was started later than that did not connect: `made_by` is compared
 * with the start time of the process.
 *
 * A user has an eighth of all places, of which DOOR_ROOM can be taken at once, and one more each DOOR_COST_NS. Further
 * connections of the user are closed; these programs then use the bus. So are those of a user whom a relay has cut off,
 * for DOOR_BARRED_NS. Others wait behind each connection that is closed. A user whose connections are too many for that
 * is banned for DOOR_BANNED_NS: the kernel then refuses them (bans.h).
 *
 * Sockets that cannot be closed at once are closed by other threads (ends.h), and those that cannot be closed at all
 * are put aside (aside.h): so no guest waits at the door because a user has files on a dead server, whose close no
 * signal ends. A user may have as many sockets aside as LimitNOFILE= allows, beside the user's places here. A user who
 * has more, or has them where the kernel cannot put descriptors aside, is banned (bans.h). Where the user cannot be
 * banned, the door lets no guest in while that user connects.
 */

#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

/* fds of one guest: its own, the pair's, the process's. */
#define DOOR_FDS       4U
#define DOOR_COST_NS   (UINT64_C(5) * 1000 * 1000)
#define DOOR_ROOM      1024U
#define DOOR_BARRED_NS (UINT64_C(60) * 1000 * 1000 * 1000)

/* A user may be refused so often at once, and one more time each DOOR_REFUSED_COST_NS. */
#define DOOR_REFUSED_ROOM    4096U
#define DOOR_REFUSED_COST_NS (UINT64_C(200) * 1000)
#define DOOR_BANNED_NS       (UINT64_C(10) * 1000 * 1000 * 1000)

typedef struct Door Door;

typedef struct DoorGuest {
        int fd; /* bytes from and to the guest: an end of a socket pair, of which no other process has a copy */
        pid_t pid;
        uid_t uid;
        int pidfd;
        uint64_t made_by; /* ns of CLOCK_BOOTTIME; 0: the pidfd is the kernel's own */
} DoorGuest;

#define DOOR_GUEST_NULL ((DoorGuest){.fd = -EBADF, .pidfd = -EBADF})

void door_guest_done(DoorGuest *g);

/* Listens at the path. Replaces a socket there at which no process listens any more. -EADDRINUSE: another process
 * listens there. */
int door_listen(const char *path, int *ret);

/* Returns the user that a uid counts as. Called by the door's thread, and never again when door_free() has returned. */
typedef uid_t (*door_user_t)(uid_t uid, void *userdata);

/* Begins to let in guests, at most `guests_max` at a time. Takes the socket on success. `user` NULL: each uid is a
 * user. */
int door_new(int fd, unsigned guests_max, door_user_t user, void *userdata, Door **ret);
/* Lets no more guests in, and closes the connections of all guests. */
Door *door_free(Door *d); /* returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Door *, door_free);

/* For poll(): readable when a guest is to be taken. */
int door_fd(const Door *d);
/* > 0: the next guest; 0: there is none. */
int door_take(Door *d, DoorGuest *ret);
