/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The door: a socket of the service's own, beside the bus
 *
 * Who registers over a bus waits for the bus: one process that everybody else can keep busy. Who comes in here is let
 * in by a thread, whatever the service decides just now, and his bytes go by relays (relay.h), by user, so that who
 * makes the kernel slow makes it slow for few.
 *
 * A guest is who connected, as the kernel says it: by a pidfd of the process where there are such (Linux 6.5), else by
 * its number, and a pidfd that is opened as soon as it is let in. A process that was started after that has not
 * connected, so it is `made_by` what a process's start is compared with.
 *
 * Of all places a user has an eighth, and may take DOOR_ROOM of them at once, and one more each DOOR_COST_NS. Who
 * comes beyond that is hung up on, and knows another way: the bus. So is for DOOR_BARRED_NS whom a relay has cut off.
 *
 * What is not closed at once is closed by others (ends.h), and what cannot be closed is put aside, so that nobody waits
 * for it to come in: not where a user has files that no signal gets the kernel away from, as those of a dead server,
 * either. He may have as many there as LimitNOFILE= allows, and as many as he has places here. Whoever has more, or has
 * them where the kernel knows no aside, is banned; and where he cannot be, nobody is let in while he comes.
 */

#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

/* fds of one guest: its own, the pair's, the process's. */
#define DOOR_FDS       4U
#define DOOR_COST_NS   (UINT64_C(5) * 1000 * 1000)
#define DOOR_ROOM      1024U
#define DOOR_BARRED_NS (UINT64_C(60) * 1000 * 1000 * 1000)

/* So often a user may be refused at once, and one more time each DOOR_REFUSED_COST_NS. */
#define DOOR_REFUSED_ROOM    4096U
#define DOOR_REFUSED_COST_NS (UINT64_C(200) * 1000)
#define DOOR_BANNED_NS       (UINT64_C(10) * 1000 * 1000 * 1000)

typedef struct Door Door;

typedef struct DoorGuest {
        int fd; /* bytes of the guest, and for it: an end of a pair that nobody else has */
        pid_t pid;
        uid_t uid;
        int pidfd;
        uint64_t made_by; /* ns of CLOCK_BOOTTIME; 0: the pidfd is the kernel's word */
} DoorGuest;

#define DOOR_GUEST_NULL ((DoorGuest){.fd = -EBADF, .pidfd = -EBADF})

void door_guest_done(DoorGuest *g);

/* Listens at the path: in the place of a socket there that nobody listens at any more. -EADDRINUSE: somebody does. */
int door_listen(const char *path, int *ret);

/* As which user a uid counts. Called by the door's thread, and never again when door_free() has returned. */
typedef uid_t (*door_user_t)(uid_t uid, void *userdata);

/* Begins to let in up to so many. Takes the socket on success. `user` NULL: each uid is a user. */
int door_new(int fd, unsigned guests_max, door_user_t user, void *userdata, Door **ret);
/* Nobody is let in any more, and who is in is hung up on. */
Door *door_free(Door *d); /* returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Door *, door_free);

/* For poll(): somebody has come in. */
int door_fd(const Door *d);
/* > 0: the next; 0: nobody. */
int door_take(Door *d, DoorGuest *ret);
