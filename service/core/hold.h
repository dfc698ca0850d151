/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Priority holds: a class for a process, for as long as somebody keeps a file descriptor open
 *
 * The service keeps the reading end of a pipe and watches it hang up; the writing end is the hold. A hold is not kept
 * over a restart of the service: its holder sees the pipe break (EPIPE, POLLERR) and takes it again.
 */

#include "cgroup/peer.h"
#include "service/settings/settings.h"

#include "manager.h"

struct Hold {
        Manager *manager;
        pid_t pid; /* of the process that it is for */
        uint64_t start_time;
        uid_t uid;
        uid_t user; /* whose quota it is in */
        char *command;
        Settings settings; /* names the class */
        bool lowers;       /* the class only lowers what a process has without it */
        bool descendants;  /* for what the process starts, too */
        char *reason;
        int fd;
        sd_event_source *source;
        Hold *prev, *next; /* the newest first */
};

typedef struct HoldParameters {
        const char *reason;
        Settings settings;
        bool lowers, descendants;
} HoldParameters;

/* The fd for the holder in ret_fd. -EDQUOT: the user's quota. */
int hold_new(Manager *m, const Peer *peer, const HoldParameters *p, int *ret_fd);
Hold *hold_free(Hold *h);

/* The settings of the newest hold for a process, and of the newest that only lowers; SETTINGS_NULL when there is
 * none. */
void hold_find(Manager *m, const Peer *peer, Settings *ret, Settings *ret_lowers);
