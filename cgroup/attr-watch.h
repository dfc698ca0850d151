/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Watches of cgroup directories: changes of their extended attributes, and their removal
 *
 * inotify reports the removal of a cgroup to the watch of its parent: the watch of its own directory gets no event, and
 * keeps the inode.
 *
 * All watches share one inotify instance, which stays open while nothing is watched: before the kernel releases an
 * instance it waits for all readers of its marks, and on each registration and each end of a client that would be
 * milliseconds without a verdict. sd-event's own instance is not used. It would be closed with its last watch; and if
 * another watch keeps it open, systemd 252's loops for ever on an event of a directory whose watch was removed after
 * the event was read. Here such an event matches no watch, and is skipped.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

typedef struct AttrWatch AttrWatch;

/* The attributes of `watched` may have changed, or its directory may be gone: events were lost. */
typedef void (*attr_watch_changed_t)(void *watched);

/* A directory of this name in the directory of `watched` has been removed. */
typedef void (*attr_watch_removed_t)(void *watched, const char *name);

/* `gone`: the kernel has ended the watch, and its number is invalid from now on. All callbacks may add and remove
 * watches. */
int attr_watch_new(sd_event *event, attr_watch_changed_t changed, attr_watch_removed_t removed,
                attr_watch_changed_t gone, AttrWatch **ret);
AttrWatch *attr_watch_free(AttrWatch *w);

/* Returns the watch's positive number, or a negative errno. A directory has one watch at a time. */
int attr_watch_add(AttrWatch *w, const char *directory, void *watched);
void attr_watch_remove(AttrWatch *w, int number);
