/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whose attributes change, and who goes: the extended attributes of cgroup directories, and the directories themselves
 *
 * That a cgroup is removed is told to those who watch the one above: the watch of its own directory is not told, and
 * keeps the inode.
 *
 * One inotify instance for all, which stays open while nothing is watched: the kernel waits for everybody who might
 * just be looking at its marks before it lets go of one, and on each registration and each end of a client that would
 * be milliseconds in which no verdict is written. sd-event's own would be closed with its last watch; and kept open by
 * another watch, that of systemd 252 goes round for ever with an event that was read for a directory whose watch is
 * gone. Here such an event finds nobody, and is passed over.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

typedef struct AttrWatch AttrWatch;

/* The attributes of what `watched` stands for may have changed, or it may be gone: events were lost. */
typedef void (*attr_watch_changed_t)(void *watched);

/* A directory of this name in it has been removed. */
typedef void (*attr_watch_removed_t)(void *watched, const char *name);

/* `gone`: the kernel has ended the watch; the number means nothing from now on. In all of them watches may be added and
 * removed. */
int attr_watch_new(sd_event *event, attr_watch_changed_t changed, attr_watch_removed_t removed,
                attr_watch_changed_t gone, AttrWatch **ret);
AttrWatch *attr_watch_free(AttrWatch *w);

/* Returns the watch's number, which is positive. A directory is watched for one at a time. */
int attr_watch_add(AttrWatch *w, const char *directory, void *watched);
void attr_watch_remove(AttrWatch *w, int number);
