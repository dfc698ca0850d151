/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Peers: the process at the other end of a connection
 *
 * A pid alone is never trusted: it can be reused between two looks. So a Peer holds a pidfd, and data from /proc is
 * used only if the pidfd still names a living process after the reading.
 *
 * For a bus peer more time passes: the bus took the pid when the connection was made, and a socket outlives the process
 * that opened it. So the peer is the process of the bus's own pidfd or, if the bus has none, one that started before
 * the connection was made (connections.h); and it has the connection's user. The same holds for a peer on the service's
 * own socket (service/base/door.h).
 */

#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "cgroup/connections.h"
#include "common/macro.h"
#include "common/process.h"

typedef struct Peer {
        pid_t pid;
        uid_t uid;
        int pidfd;
        uint64_t start_time; /* field 22 of /proc/PID/stat: with the pid, an identity that can be stored */
        char *command;       /* comm */
        char *executable;    /* NULL: not read yet, see peer_read_executable() */
        char *cgroup;        /* "/" on a system without cgroups */
        char *unit;          /* "" when it is in none */
        char *slice;         /* "" when it is in none */
} Peer;

#define PEER_NULL ((Peer){.pidfd = -EBADF})

void peer_done(Peer *p);

/* Make a peer, which the caller gives back by peer_done(). Return 0; -ESRCH: the process is gone; or another negative
 * errno. Of a sender, -ESTALE: the process that has the pid now has not made the connection. */
int peer_from_sender(const Connections *connections, sd_bus_message *m, Peer *ret);
int peer_from_pid(pid_t pid, Peer *ret);

/* Takes a stored pidfd, and checks that it is that of the stored process. */
int peer_from_pidfd(int pidfd, pid_t pid, uint64_t start_time, Peer *ret);

/* Reads the path of the process's executable once; if we may not see it (another user's process), the name that the
 * process gives itself. Not to be trusted. For that name the kernel reads the process's memory, and waits while the
 * process changes its mappings, which can be seconds: call it only when needed. */
int peer_read_executable(Peer *p);

/* Reads the process's cgroup again. Returns > 0 when it has changed, 0 when it is the same. */
int peer_refresh_cgroup(Peer *p);

/* Returns the process of a pidfd, by /proc/self/fdinfo. -EBADF: not a pidfd; -ESRCH: the process is gone. */
int pidfd_get_pid(int pidfd, pid_t *ret);
