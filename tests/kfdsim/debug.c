/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * DBG_TRAP and RUNTIME_ENABLE of the simulated driver
 *
 * A debugger's death resumes everything. The driver learns of it at once; here the engine of the debugged process looks
 * every now and then, as does every call.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "sim.h"

#define RUNTIME_DISABLED 0U
#define RUNTIME_ENABLED  1U
#define RUNTIME_BUSY     2U

static void debug_end(SimProcess *t) {
        SimWorld *w = sim_world();

        t->debugged = t->runtime_waits = false;
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (sim_queue_is_of(w->queues + i, t))
                        w->queues[i].flags &= ~(unsigned) SIM_QUEUE_SUSPENDED;
        (void) sim_queues_apply(t, NULL);
}

void sim_debug_sweep(SimProcess *t) {
        if (t->number == SIM_NO_PROCESS || !t->debugged || t->in_call != 0 ||
                        sim_start_time(t->debugger) == t->debugger_start_time)
                return;
        if (sim_process_enter(t)) {
                debug_end(t);
                sim_process_leave(t);
        }
}

static uint32_t runtime_state(const SimProcess *t) {
        return t->runtime_waits ? RUNTIME_BUSY : t->runtime_enabled ? RUNTIME_ENABLED : RUNTIME_DISABLED;
}

static int debug_enable(SimProcess *t, const KfdDbgTrap *a) {
        KfdRuntimeInfo info = {.runtime_state = runtime_state(t)};

        if (t->debugged)
                return -EALREADY;
        if (fcntl((int) a->enable.dbg_fd, F_GETFD) < 0)
                return -EBADF;
        t->debugged = true;
        t->debugger = getpid();
        t->debugger_start_time = sim_start_time(t->debugger);
        if (a->enable.rinfo_ptr)
                memcpy((void *) (uintptr_t) a->enable.rinfo_ptr, &info,
                                MIN(sizeof(info), (size_t) a->enable.rinfo_size));
        return 0;
}

/* A new queue is skipped until a snapshot has told of it. */
static int debug_suspend(SimProcess *t, const KfdDbgTrap *a) {
        uint32_t *ids = (uint32_t *) (uintptr_t) a->suspend_queues.queue_array_ptr;
        uint32_t n = a->suspend_queues.num_queues;
        int done = 0;

        if (n > 0 && !ids)
                return -EINVAL;
        for (uint32_t i = 0; i < n; i++) {
                SimQueue *q = sim_queue_find(t, ids[i]);
                if (!q || q->flags & (SIM_QUEUE_NEW | SIM_QUEUE_DYING)) {
                        ids[i] |= KFD_DBG_QUEUE_INVALID;
                        continue;
                }
                q->flags |= SIM_QUEUE_SUSPENDED;
                done++;
        }
        if (sim_queues_apply(t, NULL) >= 0)
                return done;
        for (uint32_t i = 0; i < n; i++)
                if (!(ids[i] & KFD_DBG_QUEUE_INVALID))
                        ids[i] |= KFD_DBG_QUEUE_ERROR;
        return 0;
}

static bool queue_resume(SimQueue *q) {
        bool was = q->flags & SIM_QUEUE_SUSPENDED;

        q->flags &= ~(unsigned) SIM_QUEUE_SUSPENDED;
        return was;
}

static int debug_resume(SimProcess *t, const KfdDbgTrap *a) {
        SimWorld *w = sim_world();
        uint32_t *ids = (uint32_t *) (uintptr_t) a->resume_queues.queue_array_ptr;
        int done = 0;

        for (uint32_t i = 0; ids && i < a->resume_queues.num_queues; i++) {
                SimQueue *q = sim_queue_find(t, ids[i]);
                if (q)
                        done += queue_resume(q);
                else
                        ids[i] |= KFD_DBG_QUEUE_INVALID;
        }
        for (size_t i = 0; !ids && i < SIM_QUEUES_MAX; i++)
                if (sim_queue_is_of(w->queues + i, t))
                        done += queue_resume(w->queues + i);
        (void) sim_queues_apply(t, NULL);
        return done;
}

static int debug_snapshot(SimProcess *t, KfdDbgTrap *a) {
        SimWorld *w = sim_world();
        uint8_t *out = (uint8_t *) (uintptr_t) a->queue_snapshot.snapshot_buf_ptr;
        uint32_t n = 0, room = a->queue_snapshot.num_queues, stride = a->queue_snapshot.entry_size;

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                SimQueue *q = w->queues + i;
                if (!sim_queue_is_of(q, t))
                        continue;
                if (n < room) {
                        KfdQueueSnapshot s = {
                                        .exception_status = q->flags & SIM_QUEUE_NEW
                                                        ? KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW)
                                                        : 0,
                                        .ring_base_address = q->ring,
                                        .write_pointer_address = q->write_pointer,
                                        .read_pointer_address = q->read_pointer,
                                        .ctx_save_restore_address = q->save_area,
                                        .queue_id = q->id,
                                        .gpu_id = w->gpus[q->gpu].gpu_id,
                                        .ring_size = q->ring_size,
                                        .queue_type = q->type,
                                        .ctx_save_restore_area_size = q->save_area_size,
                        };
                        memcpy(out + (size_t) n * stride, &s, MIN(sizeof(s), (size_t) stride));
                        if (a->queue_snapshot.exception_mask & KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW))
                                q->flags &= ~(unsigned) SIM_QUEUE_NEW;
                }
                n++;
        }
        a->queue_snapshot.num_queues = n;
        a->queue_snapshot.entry_size = MIN(stride, (uint32_t) sizeof(KfdQueueSnapshot));
        return 0;
}

static int debug_op(SimProcess *t, KfdDbgTrap *a) {
        switch (a->op) {
        case KFD_DBG_TRAP_ENABLE:
                return debug_enable(t, a);
        case KFD_DBG_TRAP_DISABLE:
                debug_end(t);
                return 0;
        case KFD_DBG_TRAP_SEND_RUNTIME_EVENT:
                if (a->send_runtime_event.exception_mask & KFD_EXCEPTION_MASK(KFD_EXCEPTION_PROCESS_RUNTIME))
                        t->runtime_waits = false;
                return 0;
        case KFD_DBG_TRAP_SET_EXCEPTIONS_ENABLED:
                return 0;
        case KFD_DBG_TRAP_SUSPEND_QUEUES:
                return t->runtime_enabled ? debug_suspend(t, a) : -EPERM;
        case KFD_DBG_TRAP_RESUME_QUEUES:
                return t->runtime_enabled ? debug_resume(t, a) : -EPERM;
        case KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT:
                return debug_snapshot(t, a);
        default:
                return -EINVAL;
        }
}

static int debug_call(KfdDbgTrap *a) {
        pid_t pid = (pid_t) a->pid;
        bool self = pid == getpid(), traced = !self && sim_tracer(pid) == (int) syscall(SYS_gettid);

        if (sim_start_time(pid) == 0)
                return -ESRCH;

        /* A tracer may enable debugging before its target has opened the device. */
        SimProcess *t = a->op == KFD_DBG_TRAP_ENABLE && traced ? sim_process_get(pid) : sim_process_find(pid);
        if (!t)
                return -ESRCH;
        sim_debug_sweep(t);
        if (a->op != KFD_DBG_TRAP_ENABLE && !t->debugged)
                return -EINVAL;
        if (!self && !traced && a->op != KFD_DBG_TRAP_DISABLE)
                return -EPERM;
        if (!sim_process_enter(t))
                return -ESRCH;
        int r = debug_op(t, a);
        sim_process_leave(t);
        return r;
}

int sim_debug_ioctl(KfdDbgTrap *a) {
        sim_lock();
        int r = debug_call(a);
        sim_unlock();
        return r;
}

/* With a debugger attached, the runtime waits until the debugger has acknowledged it. */
int sim_runtime_ioctl(SimProcess *p, KfdRuntimeEnable *a) {
        int r = 0;

        sim_lock();
        if (!(a->mode_mask & KFD_RUNTIME_MODE_ENABLE))
                p->runtime_enabled = false;
        else if (p->runtime_enabled)
                r = -EBUSY;
        else {
                p->runtime_waits = p->debugged;
                while (p->runtime_waits) {
                        sim_unlock();
                        (void) usleep(1000);
                        sim_lock();
                        sim_debug_sweep(p);
                }
                p->runtime_enabled = true;
        }
        sim_unlock();
        return r;
}
