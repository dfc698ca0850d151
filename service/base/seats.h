/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Seats: whose session is the active one of a seat, as logind has it (sd-login(3))
 *
 * A session is a scope below the slice of its user, and what a desktop starts is mostly below the user's own service
 * manager. So a cgroup belongs to the person in front of the screen if it is below the scope of an active session, or
 * below the manager of a user who has one. Only cgroups that logind and systemd have made count: users name those below
 * their manager as they like.
 *
 * Nothing is asked over the bus: logind writes files that every user may read, and inotify tells when they change.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

typedef struct Seats Seats;

/* `changed` is called when other sessions are active. Without logind: a negative errno. */
int seats_new(sd_event *event, void (*changed)(void *userdata), void *userdata, Seats **ret);
Seats *seats_free(Seats *s); /* NULL is nothing */

/* `s` and `cgroup` may be NULL: then no session is active. */
bool seats_is_active(const Seats *s, const char *cgroup);
