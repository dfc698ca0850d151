/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's own turn on the CPU
 */

#include <sched.h>

#include "common/macro.h"
#include "log.h"
#include "realtime.h"

void realtime_set(Realtime *state, bool on) {
        if (*state == REALTIME_REFUSED || (*state == REALTIME_ON) == on)
                return;

        const struct sched_param param = {.sched_priority = on ? sched_get_priority_min(SCHED_RR) : 0};
        if (sched_setscheduler(0, (on ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param) < 0) {
                log_debug_errno(negative_errno(), "Not scheduled in real time, ignoring: %m");
                *state = REALTIME_REFUSED;
                return;
        }
        *state = on ? REALTIME_ON : REALTIME_OFF;
}
