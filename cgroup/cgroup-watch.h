/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who moves: processes that are put into another cgroup
 *
 * The kernel tells nobody that a process has moved. "populated" in cgroup.events changes only with the first that comes
 * and the last that goes; the process events of netlink, PSI and the files of the controllers know nothing of it;
 * systemd's signals tell of its own units only. But a running process is moved in one way: somebody writes its number
 * to cgroup.procs (or a thread's to cgroup.threads) of the cgroup that it shall be in. A write to a file of cgroupfs is
 * an IN_MODIFY like any other, whoever makes it, from whichever mount and cgroup namespace, and it is reported when the
 * process has already moved. Seen on Linux 6.12 and 6.18.
 *
 * So every directory of the hierarchy is watched, since nobody knows beforehand where a process will go. One that
 * appears is watched from then on, and what was written to it before is found by looking: `entered` is called for it,
 * too. Nothing is looked at periodically, and a hierarchy in which nothing is written costs nothing.
 *
 * The inotify instance stays open while nothing is watched: on a busy machine the kernel can take seconds to close one
 * (it waits for everybody who might just be looking at its marks), and nobody's verdict shall wait for that.
 *
 * What this takes is one watch a cgroup (fs.inotify.max_user_watches, 8192 on the smallest of machines), of
 * CGROUP_WATCH_MAX at most. A user can make as many cgroups as he likes below one that was given to him, so one has a
 * fourth of them, by who owns the directories. Of what is not watched `problem` hears.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

#define CGROUP_WATCH_MAX    65536U
#define CGROUP_WATCH_USERS  4U
#define CGROUP_WATCH_NOBODY ((uid_t) -1)

typedef struct CgroupWatch CgroupWatch;

/* Processes may have entered the cgroup ("/" is the root). NULL: any cgroup, since events were lost, or since the watch
 * has just become complete and nobody knows what happened before. Called many times for nothing. The watch must not be
 * freed in it. */
typedef void (*cgroup_watch_entered_t)(const char *cgroup, void *userdata);

typedef struct CgroupWatchOps {
        cgroup_watch_entered_t entered;
        /* As which user an owner of directories counts. */
        uid_t (*user_of)(uid_t uid, void *userdata);
        /* Not all cgroups of the user are watched, or they are again; of CGROUP_WATCH_NOBODY: not all of whomever. */
        void (*problem)(uid_t user, bool is, void *userdata);
} CgroupWatchOps;

/* `root` is the directory of the hierarchy, see cgroup_directory(). Nothing is watched yet. `max`: watches for
 * everybody, CGROUP_WATCH_MAX; fewer where the kernel has fewer. */
int cgroup_watch_new(sd_event *event, const char *root, size_t max, const CgroupWatchOps *ops,
                void *userdata, CgroupWatch **ret);
CgroupWatch *cgroup_watch_free(CgroupWatch *w);

/* The hierarchy is walked in small steps from the event loop. To start again is to look again; to stop costs a system
 * call a cgroup. */
int cgroup_watch_start(CgroupWatch *w);
void cgroup_watch_stop(CgroupWatch *w);
