/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Pauser: a child process that pauses another process's GPU queues, for as long as the service says so
 *
 * The service must not wait for the driver, which may take seconds, and no process may stay paused when the service
 * dies. So each process that is held by privilege has a pauser, the program xsched-holder: a child of the service that
 * makes the calls, and that ends the pause by itself
 *   - when it is told to, or hears nothing for the length of a lease: the service is stopped, or stuck;
 *   - when the socket to the service hangs up: the service was killed, or ended;
 *   - on SIGTERM, which systemd sends to everything in the unit.
 * The pauser records each pause before it makes it (pause-record.h). When the pauser is killed, the service starts
 * another one to undo its pause; when all are killed at once, ExecStopPost= or the next start does.
 *
 * Protocol, over a SOCK_SEQPACKET socket, all in one machine's byte order: a request says what is wanted now, and the
 * last one counts; every change and every failure is answered.
 */

#include <stdbool.h>
#include <stdint.h>

#include "hal/privileged.h"

#define PAUSER_SOCKET_FD 3

/* Exit status of "undo": no pause was left because of an error, but a living pauser still has one. */
#define PAUSER_EXIT_LIVES 75

typedef struct PauserRequest {
        uint32_t wanted; /* 1: held, 0: running */
        uint32_t _pad;
        uint64_t until_ns; /* CLOCK_MONOTONIC */
} PauserRequest;

typedef struct PauserReply {
        uint32_t state;  /* TargetState */
        uint32_t wanted; /* of the request that this answers */
        int32_t error;
        uint32_t expired;             /* released because the lease ran out */
        uint64_t hold_ns, release_ns; /* estimates; 0: not measured */
} PauserReply;

typedef struct PauserOptions {
        pid_t pid;
        uint64_t start_time;
        PrivilegedMode mode;
        bool allow_mes;
        int dir;    /* of records */
        int socket; /* to the service */
} PauserOptions;

/* Runs until nothing is held and the service has hung up. Returns 0 when nothing is held. */
int pauser_run(const PauserOptions *o, const PrivilegedSys *sys);

/* Undoes the pauses of all records, or (pid > 0) of one process. Waits a moment for living pausers, and then leaves
 * them their records. Returns 0 when no record is left, -EAGAIN when there is a living pauser, or the first error. */
int pauser_undo(int dir, pid_t pid, uint64_t start_time, const PrivilegedSys *sys);
