/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Peers that are made up, for benches that have the service's objects without a bus: to be linked with --wrap
 */

#include <errno.h>
#include <sys/eventfd.h>

#include "cgroup/peer.h"

/* In place of functions of cgroup/: valgrind knows no pidfd_open(), and the cgroups are made up. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_peer_from_pid(pid_t pid, Peer *ret);
int __wrap_peer_refresh_cgroup(Peer *p);

int __wrap_peer_refresh_cgroup(Peer *p) {
        return 0;
}

int __wrap_peer_from_pid(pid_t pid, Peer *ret) {
        *ret = (Peer){
                        .pid = pid,
                        .uid = getuid(),
                        .pidfd = eventfd(0, EFD_CLOEXEC),
                        .command = strdup(program_invocation_short_name),
                        .cgroup = strdup("/"),
                        .unit = strdup(""),
                        .slice = strdup(""),
        };
        return 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */
