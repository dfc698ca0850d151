/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's own scheduling
 */

#include <sched.h>
#include <time.h>

#include "common/macro.h"
#include "log.h"
#include "realtime.h"

bool realtime_is_busy(RealtimeLoad *l, uint64_t now) {
        struct timespec t;
        uint64_t span = ns_sub(now, l->since);

        if (span < REALTIME_WINDOW_NS)
                return l->is_busy;
        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        uint64_t cpu_ns = (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
        uint64_t used = ns_sub(cpu_ns, l->cpu_ns);
        bool first = l->since == 0;
        l->since = now;
        l->cpu_ns = cpu_ns;
        if (!first)
                l->is_busy = used > span / (l->is_busy ? REALTIME_CALM : REALTIME_BUSY);
        return l->is_busy;
}

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
