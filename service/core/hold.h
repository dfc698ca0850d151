/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Priority holds: a class for a process, for as long as somebody keeps a file descriptor open
 *
 * The service keeps the reading end of a pipe and watches it hang up; the writing end is the hold. A hold is not kept
 * over a restart of the service: its holder sees the pipe break (EPIPE, POLLERR) and takes it again.
 *
 * A user can have many holds, and many clients that they are for. So a client knows the hold that counts for it, and a
 * hold those clients; what begins or ends with a hold goes to them in steps. Those of the beginning are steps of the
 * call, which is answered when all have followed. Those of the end are made below everything else, and are charged to
 * the user as his changes are.
 */

#include "cgroup/peer.h"
#include "service/settings/settings.h"

#include "manager.h"
#include "walk.h"

/* One that only lowers stands in front of none that does not: a client can have one of each. */
typedef enum HoldKind {
        HOLD_DECIDES,
        HOLD_LOWERS,
        _HOLD_KIND_MAX,
} HoldKind;

/* What the settings of a client, and then of its queues, are made anew by, one at a time. */
typedef struct HoldStep {
        uint64_t client; /* 0: none */
        uint32_t slot;   /* its next queue */
} HoldStep;

struct Hold {
        Manager *manager;
        uint64_t id;
        pid_t pid; /* of the process that it is for */
        uint64_t start_time;
        uid_t uid;
        uid_t user; /* whose quota it is in */
        char *command;
        Settings settings; /* names the class */
        HoldKind kind;     /* the latter: the class only lowers what a process has without it */
        bool descendants;  /* for what the process starts, too */
        char *reason;
        int fd;
        sd_event_source *source;
        struct HeldProcess *process; /* NULL: it has ended */
        Client *clients;             /* list: those that it counts for */
        HoldStep step;               /* of the end */
        Hold *prev, *next;           /* of Holds.all, the newest first, or of Holds.ended */
        Hold *process_prev, *process_next;
};

typedef struct HoldParameters {
        const char *reason;
        Settings settings;
        bool lowers, descendants;
} HoldParameters;

/* The fd for the holder in ret_fd: until that is closed the hold does not end. It counts for clients to come, and for
 * those that are there by hold_begin_step(). -EDQUOT: the user's quota. */
int hold_new(Manager *m, const Peer *peer, const HoldParameters *p, Hold **ret, int *ret_fd);

/* The beginning of a hold. */
typedef struct HoldBegin {
        Hold *hold;
        Walk walk;
        uint64_t reaching; /* the client whose ancestors are being read; 0: none */
        HoldStep step;
} HoldBegin;

void hold_begin(HoldBegin *b, Hold *h);
void hold_begin_done(HoldBegin *b);

/* Returns whether there is more. */
bool hold_begin_step(HoldBegin *b);

/* For a client that is being made: finds the holds that count for it. */
void holds_join(Client *c);
void holds_leave(Client *c);

void holds_free(Manager *m);
