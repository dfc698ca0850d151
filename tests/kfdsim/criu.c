/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CRIU_OP of the simulated driver: pausing a whole process
 *
 * As in the driver, each pause evicts the queues once more, but only one pause is remembered. So two pauses and one
 * UNPAUSE leave the process evicted for ever. Nothing else undoes a pause, not even the death of its caller.
 */

#include <errno.h>

#include "sim.h"

static bool has_queues(const SimProcess *p) {
        const SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (sim_queue_is_of(w->queues + i, p))
                        return true;
        return false;
}

static int criu_pause(SimProcess *p, KfdCriu *a) {
        const SimWorld *w = sim_world();

        if (w->n_gpus == 0)
                return -ENODEV;
        /* Done in one step: a process that is killed in the driver ends after the call. */
        p->n_evictions++;
        p->is_paused = true;
        int r = sim_queues_apply(p, NULL);
        a->pid = (uint32_t) p->pid;
        a->num_devices = w->n_gpus;
        a->num_bos = a->num_objects = 0;
        a->num_objects = has_queues(p);
        p->is_paused = r >= 0;
        return r;
}

static int criu_unpause(SimProcess *p) {
        if (!p->is_paused)
                return -EINVAL;
        p->is_paused = false;
        p->n_evictions--;
        return sim_queues_apply(p, NULL);
}

int sim_criu_ioctl(SimProcess *p, KfdCriu *a) {
        int r;

        sim_lock();
        if (!sim_process_enter(p)) {
                sim_unlock();
                return -ESRCH;
        }
        switch (a->op) {
        case KFD_CRIU_PROCESS_INFO:
                r = criu_pause(p, a);
                break;
        case KFD_CRIU_UNPAUSE:
                r = criu_unpause(p);
                break;
        default:
                r = -EINVAL;
        }
        sim_process_leave(p);
        sim_unlock();
        return r;
}
