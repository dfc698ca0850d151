/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The holder: a process that holds one other process's GPU queues, for as long as it is told so
 *
 * The service must not wait for the driver, which may take seconds, and must be able to die at any time without anybody
 * staying stopped. So each process that is held by privilege has a holder: a child of the service that does the calls,
 * and that lets go by itself
 *   - when it is told to, or told nothing for the length of a lease: the service is stopped, or stuck;
 *   - when the socket to the service ends: it was killed, or went;
 *   - on SIGTERM, which systemd sends to everything in the unit.
 * What the holder does is written down before (hold-record.h). When the holder itself is killed the service has another
 * one undo what it has left; when all are killed at once ExecStopPost= does, or the next start.
 *
 * Protocol, over a SOCK_SEQPACKET socket, all in one machine's byte order: requests say what is wanted now, the last
 * one counts; every change and every failure is answered.
 */

#include <stdbool.h>
#include <stdint.h>

#include "hal/kfd-privileged.h"

#define HOLDER_SOCKET_FD 3

/* Of "undo": nothing has failed, but a holder that lives has what it holds. */
#define HOLDER_EXIT_LIVES 75

typedef struct HolderRequest {
        uint32_t wanted; /* 1: held, 0: running */
        uint32_t _pad;
        uint64_t until_ns; /* CLOCK_MONOTONIC */
} HolderRequest;

typedef struct HolderReply {
        uint32_t state;  /* KfdTargetState */
        uint32_t wanted; /* of the request that this is about */
        int32_t error;
        uint32_t expired;             /* let go because nobody renewed */
        uint64_t hold_ns, release_ns; /* estimates; 0: not measured */
} HolderReply;

typedef struct HolderOptions {
        pid_t pid;
        uint64_t start_time;
        KfdPrivilegedMode mode;
        bool allow_mes;
        int dir;    /* of records */
        int socket; /* to the service */
} HolderOptions;

/* Until there is nothing more to hold and nobody to ask for it. 0: nothing is held. */
int holder_run(const HolderOptions *o, const KfdTargetSys *sys);

/* Undoes what the records say, or (pid > 0) the record of one process. Records of living holders are theirs, after a
 * moment of waiting. Returns 0 when nothing is left, -EAGAIN when there is a living holder, or the first error. */
int holder_undo(int dir, pid_t pid, uint64_t start_time, const KfdTargetSys *sys);
