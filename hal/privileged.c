/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Another process that is held as a whole: passes on to the backend
 */

#include "hal/privileged.h"

#include "common/macro.h"
#include "common/time-util.h"

int privileged_target_open(PrivilegedMode mode, pid_t pid, uint64_t start_time, bool allow_mes,
                const PrivilegedSys *sys, PrivilegedTarget *ret) {
        PrivilegedTarget t = PRIVILEGED_TARGET_NULL;

        t.mode = mode;
        int r = mode == PRIVILEGED_CHANNELS ? nvrm_target_open(pid, start_time, sys->nvrm, &t.nvrm)
                                            : kfd_target_open(mode, pid, start_time, allow_mes, sys->kfd, &t.kfd);
        if (r >= 0)
                *ret = t;
        return r;
}

void privileged_target_done(PrivilegedTarget *t) {
        kfd_target_done(&t->kfd);
        nvrm_target_done(&t->nvrm);
        t->mode = PRIVILEGED_NO;
}

/* Calls a function of the backend in use, by the name that both have. */
#define CALL(t, name) ((t)->mode == PRIVILEGED_CHANNELS ? nvrm_target_##name(&(t)->nvrm) : kfd_target_##name(&(t)->kfd))

int privileged_target_hold(PrivilegedTarget *t) {
        return CALL(t, hold);
}

int privileged_target_release(PrivilegedTarget *t) {
        return t->mode == PRIVILEGED_NO ? 0 : CALL(t, release);
}

uint64_t privileged_target_look_at(const PrivilegedTarget *t) {
        return t->mode == PRIVILEGED_CHANNELS ? nvrm_target_look_at(&t->nvrm) : NSEC_INFINITY;
}

int privileged_target_undo(PrivilegedTarget *t) {
        return CALL(t, undo);
}

bool privileged_mode_outlasts(PrivilegedMode mode) {
        return mode == PRIVILEGED_CRIU || mode == PRIVILEGED_CHANNELS;
}

TargetState privileged_target_state(const PrivilegedTarget *t) {
        return t->mode == PRIVILEGED_CHANNELS ? t->nvrm.state : t->kfd.state;
}

HalCosts privileged_target_costs(const PrivilegedTarget *t) {
        return t->mode == PRIVILEGED_CHANNELS ? t->nvrm.costs : t->kfd.costs;
}

void privileged_target_has_ended(PrivilegedTarget *t) {
        t->kfd.state = t->nvrm.state = TARGET_RUNNING;
}

const char *privileged_explain(PrivilegedMode mode, int error) {
        return mode == PRIVILEGED_CHANNELS ? nvrm_privileged_explain(error) : kfd_privileged_explain(error);
}
