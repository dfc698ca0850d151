/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Another process that is held as a whole, by any of the means: kfd-privileged.h for AMD, nvrm-privileged.h for NVIDIA
 *
 * What is said there of a KfdTarget is true of all: it belongs to one thread at a time, and after an error the process
 * runs, unless the state is UNSURE.
 */

#include "hal/kfd-privileged.h"
#include "hal/nvrm-privileged.h"

typedef struct PrivilegedSys {
        const KfdTargetSys *kfd;
        const NvrmTargetSys *nvrm;
} PrivilegedSys;

typedef struct PrivilegedTarget {
        PrivilegedMode mode; /* of the two below, one is in use; NO: none */
        KfdTarget kfd;
        NvrmTarget nvrm;
} PrivilegedTarget;

#define PRIVILEGED_TARGET_NULL ((PrivilegedTarget){.kfd = KFD_TARGET_NULL, .nvrm = NVRM_TARGET_NULL})

/* As kfd_target_open() and nvrm_target_open(). `allow_mes` is of AMD only. */
int privileged_target_open(PrivilegedMode mode, pid_t pid, uint64_t start_time, bool allow_mes,
                const PrivilegedSys *sys, PrivilegedTarget *ret);

/* Releases the target's hold, and closes it. */
void privileged_target_done(PrivilegedTarget *t);

int privileged_target_hold(PrivilegedTarget *t);
int privileged_target_release(PrivilegedTarget *t);

/* When hold() is to be called once more; NSEC_INFINITY: never. */
uint64_t privileged_target_look_at(const PrivilegedTarget *t);

/* Resumes a process that a dead process of ours may have held. */
int privileged_target_undo(PrivilegedTarget *t);

/* Whether a hold outlasts the process that made it, so that it has to be undone. */
bool privileged_mode_outlasts(PrivilegedMode mode);

TargetState privileged_target_state(const PrivilegedTarget *t);
HalCosts privileged_target_costs(const PrivilegedTarget *t);

/* The process has ended, and its hold with it. */
void privileged_target_has_ended(PrivilegedTarget *t);

/* Returns a sentence for people about an error of these functions. Never NULL. */
const char *privileged_explain(PrivilegedMode mode, int error);
