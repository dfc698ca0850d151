/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Peers: which process is at the other end
 *
 * A process number alone is never believed: between two looks it can belong to somebody else. A Peer therefore holds a
 * pidfd, and what is read from /proc is taken only when the pidfd still stood for a living process after the reading.
 *
 * For a bus peer there is a longer time between the two looks: the bus took the number when the connection was made,
 * and a socket outlives the process that opened it. So the process is the one that the bus's own pidfd stands for, or,
 * where the bus has none, one that was there before the connection (connections.h); and it has the connection's user.
 * The same is so of a peer on the service's own socket (service/base/door.h).
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
        uint64_t start_time; /* field 22 of /proc/PID/stat: with the pid, a name for a process that can be written down */
        char *command;    /* comm */
        char *executable; /* NULL: nobody has asked, see peer_read_executable() */
        char *cgroup;     /* "/" where there are none */
        char *unit;       /* "" when it is in none */
        char *slice;      /* "" when it is in none */
} Peer;

#define PEER_NULL ((Peer){.pidfd = -EBADF})

void peer_done(Peer *p);

/* Each returns 0, -ESRCH when the process is gone, or another negative errno. Of a sender, -ESTALE: whoever has the
 * number now has not made the connection. */
int peer_from_sender(const Connections *connections, sd_bus_message *m, Peer *ret);
int peer_from_pid(pid_t pid, Peer *ret);

/* Takes a pidfd that was kept, and checks that it is the process that was written down. */
int peer_from_pidfd(int pidfd, pid_t pid, uint64_t start_time, Peer *ret);

/* Reads once which executable the process is: its path; where that is not ours to see (another user's process), what it
 * calls itself. Never to be trusted. The kernel looks for the latter in the process's memory, and waits while the
 * process changes what it has mapped, which can be seconds: not to be asked without need. */
int peer_read_executable(Peer *p);

/* Reads anew where the process is. Returns > 0 when its cgroup is another now, 0 when it is the same. */
int peer_refresh_cgroup(Peer *p);

/* The process behind a pidfd, by /proc/self/fdinfo. -EBADF when it is no pidfd, -ESRCH when the process is gone. */
int pidfd_get_pid(int pidfd, pid_t *ret);
