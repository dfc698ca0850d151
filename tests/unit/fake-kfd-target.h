/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Another process's queues, and a driver that the test plays: CRIU_OP and DBG_TRAP refuse the same calls as the
 * kernel's
 */

#include "common/macro.h"
#include "hal/kfd-privileged.h"
#include "tests/lib/unit.h"

#define PID      4711
#define START    815
#define THEIRS   1001
#define OURS     1002
#define EVENTS   1003
#define PIDFD    1004
#define PARENTS  1005
#define QUEUES   70 /* more than the first guess of the backend */
#define FAILURES 8

/* The failure of one call: its error, and whether the call does its work before it fails. */
typedef struct Failure {
        unsigned op;
        int error;
        bool late;
} Failure;

typedef struct Driver {
        /* the process */
        bool is_there, has_device, inherits, has_mes, cannot_tell_mes, is_split, may_trace;
        uint32_t runtime_state;
        bool runtime_told;
        pid_t tracer;
        unsigned n_seizes, busy_seizes; /* number of seizes that fail because the former tracer has not gone yet */
        uint64_t clock;

        uint32_t minor;
        bool no_criu;

        /* criu */
        int evictions;
        bool paused;
        unsigned n_pauses;

        /* debug */
        bool enabled;
        bool others_debug;
        uint32_t n_queues;
        struct {
                uint32_t type;
                bool new, suspended, broken;
        } queues[QUEUES];

        Failure failures[FAILURES];
        size_t n_failures, next_failure;
} Driver;

extern Driver driver;
extern const KfdTargetSys fake_target_sys;

#define OP_CRIU(op)  (100U + (op))
#define OP_DEBUG(op) (200U + (op))

/* A cmocka set-up: a process with queues that the test may trace. */
int driver_reset(void **state);
void fail_next(unsigned op, int error, bool late);

KfdTarget open_target(PrivilegedMode mode);
void close_target(KfdTarget *t);
unsigned n_suspended(void);
/* Checks that the driver is in the state that the target reports. */
void assert_truth(const KfdTarget *t);
