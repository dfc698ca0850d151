/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Notices processes that are moved into another cgroup
 *
 * The kernel has no event for a process that moves. "populated" in cgroup.events changes only with the first process
 * that enters and the last that leaves; the process events of netlink, PSI and the files of the controllers do not
 * cover moves; systemd's signals cover only its own units. But a running process is moved in only one way: a write of
 * its pid to cgroup.procs (or of a thread's to cgroup.threads) of the new cgroup. A write to a file of cgroupfs is an
 * IN_MODIFY like any other, for every writer, mount and cgroup namespace, and it is reported when the process has
 * already moved. Seen on Linux 6.12 and 6.18.
 *
 * So every directory of the hierarchy is watched, because a process may go to any of them. A new directory is watched
 * from its creation event on, and `entered` is called for it, too, because of writes before that. Nothing is polled,
 * and a hierarchy without writes costs nothing.
 *
 * The inotify instance stays open while nothing is watched: on a busy machine the kernel can take seconds to close one
 * (it waits for all readers of its marks), and no verdict must wait for that.
 *
 * This takes one watch a cgroup (fs.inotify.max_user_watches, 8192 on the smallest machines), CGROUP_WATCH_MAX at most.
 * A user can make any number of cgroups below a delegated one, so one user, by the owner of the directories, gets a
 * quarter of the watches at most. `problem` is called for cgroups that are not watched.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

#define CGROUP_WATCH_MAX    65536U
#define CGROUP_WATCH_USERS  4U
#define CGROUP_WATCH_NOBODY ((uid_t) -1)

typedef struct CgroupWatch CgroupWatch;

/* Processes may have entered the cgroup ("/" is the root). NULL: any cgroup, since events were lost, or since the watch
 * has just become complete and earlier moves are unknown. Often called without any move. The callback must not free the
 * watch. */
typedef void (*cgroup_watch_entered_t)(const char *cgroup, void *userdata);

typedef struct CgroupWatchOps {
        cgroup_watch_entered_t entered;
        /* Maps the owner of a directory to the user whose share it counts in. */
        uid_t (*user_of)(uid_t uid, void *userdata);
        /* Some cgroups of the user are not watched (`is`), or all are again; CGROUP_WATCH_NOBODY: cgroups of any
         * user. */
        void (*problem)(uid_t user, bool is, void *userdata);
} CgroupWatchOps;

/* Makes a watch that watches nothing yet. `root`: the directory of the hierarchy, see cgroup_directory(). `max`:
 * watches for all users together, CGROUP_WATCH_MAX; fewer if the kernel allows fewer. */
int cgroup_watch_new(sd_event *event, const char *root, size_t max, const CgroupWatchOps *ops, void *userdata,
                CgroupWatch **ret);
CgroupWatch *cgroup_watch_free(CgroupWatch *w);

/* Start or stop watching. The hierarchy is walked in small steps from the event loop. Starting again walks it again;
 * stopping costs a system call a cgroup. */
int cgroup_watch_start(CgroupWatch *w);
void cgroup_watch_stop(CgroupWatch *w);
