/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Priority claim: a class for a process, for as long as its holder keeps a file descriptor open
 *
 * The holder gets the writing end of a pipe; the claim ends when the service's reading end hangs up. A claim does not
 * survive a restart of the service: its holder sees the pipe break (EPIPE, POLLERR) and takes it again.
 *
 * A user can have many claims, each for many clients. So each client links to the claim in force for it, and the begin
 * and end of a claim reach its clients in steps. The steps of the begin belong to the call, which is answered after the
 * last one. The steps of the end run at the lowest priority of the loop, and are charged to the user's budget of
 * changes.
 */

#include "cgroup/peer.h"
#include "service/settings/settings.h"

#include "manager.h"
#include "walk.h"

/* A client can have one claim of each kind, so that a claim that only lowers does not hide one that decides. */
typedef enum ClaimKind {
        CLAIM_DECIDES,
        CLAIM_LOWERS,
        _CLAIM_KIND_MAX,
} ClaimKind;

/* Progress of a walk that resolves a client's settings, and then those of its queues, one at a time. */
typedef struct ClaimStep {
        uint64_t client; /* 0: none */
        uint32_t slot;   /* its next queue */
} ClaimStep;

struct Claim {
        Manager *manager;
        uint64_t id;
        pid_t pid; /* of the process that the claim is for */
        uint64_t start_time;
        uid_t uid;
        uid_t user; /* in whose quota it counts */
        char *command;
        Settings settings; /* names the class */
        ClaimKind kind;    /* CLAIM_LOWERS: the class only lowers what a process has without it */
        bool descendants;  /* also for the process's descendants */
        char *reason;
        int fd;
        sd_event_source *source;
        struct ClaimedProcess *process; /* NULL: the claim has ended */
        Client *clients;                /* list: clients that it is in force for */
        ClaimStep step;                 /* of the end */
        Claim *prev, *next;             /* in Claims.all, the newest first, or in Claims.ended */
        Claim *process_prev, *process_next;
};

typedef struct ClaimParameters {
        const char *reason;
        Settings settings;
        bool lowers, descendants;
} ClaimParameters;

/* Makes a claim that lasts until the holder closes `ret_fd`, which the caller owns. It is in force for new clients at
 * once, and for present ones after claim_begin_step(). -EDQUOT: the user's quota is used up. */
int claim_new(Manager *m, const Peer *peer, const ClaimParameters *p, Claim **ret, int *ret_fd);

/* Progress of the begin of a claim. */
typedef struct ClaimBegin {
        Claim *claim;
        Walk walk;
        uint64_t reaching; /* the client whose ancestors are being read; 0: none */
        ClaimStep step;
} ClaimBegin;

void claim_begin(ClaimBegin *b, Claim *h);
void claim_begin_done(ClaimBegin *b);

/* Returns whether there is more. */
bool claim_begin_step(ClaimBegin *b);

/* For a new client: finds the claims in force for it; and takes the client off them. */
void claims_join(Client *c);
void claims_leave(Client *c);

void claims_free(Manager *m);
