/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Nice values and real-time priorities
 */

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "client.h"
#include "nice.h"

#define NICE_REAL_TIME 20 /* above all nice values */

static int cpu_priority(pid_t pid, int *ret) {
        int policy = sched_getscheduler(pid);

        if (policy < 0)
                return -errno;
        policy &= ~SCHED_RESET_ON_FORK;
        if (policy == SCHED_FIFO || policy == SCHED_RR) {
                struct sched_param param;

                if (sched_getparam(pid, &param) < 0)
                        return -errno;
                *ret = NICE_REAL_TIME + param.sched_priority;
                return 0;
        }
        errno = 0;
        int nice = getpriority(PRIO_PROCESS, (id_t) pid);
        if (nice == -1 && errno != 0)
                return -errno;
        *ret = -nice;
        return 0;
}

bool nice_look(Entity *e) {
        int v = 0;

        if (cpu_priority(e->client->peer.pid, &v) < 0 || v == e->cpu_priority)
                return false;
        e->cpu_priority = v;
        return true;
}
