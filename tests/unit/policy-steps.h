/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Steps of a test that follows single jobs: each is followed by a dispatch
 */

#include "policy-harness.h"

static inline Job *add(Harness *h, int priority) {
        return harness_add(h, (PolicySettings){.priority = priority, .weight = POLICY_WEIGHT_DEFAULT});
}

static inline void ready(Job *j) {
        harness_ready(j);
        harness_dispatch(j->h);
}

static inline void idle(Job *j) {
        harness_idle(j);
        harness_dispatch(j->h);
}

static inline bool granted(const Job *j) {
        return j->grant.verdict == VERDICT_RUN;
}
