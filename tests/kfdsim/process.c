/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes of the simulated driver: their records, from the first open of the device until after their death
 *
 * A record lives until its process has ended, as in the driver, and is then removed by the next process that looks for
 * a process; the start time tells a dead process from another with its number. Calls about one process come one after
 * the other (the driver holds the process's lock throughout a call); The world's own lock is held for moments only, so
 * a process that waits for an engine does not delay others.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "sim.h"

#define DEATH_LOOK_NS (10 * NSEC_PER_MSEC)

static bool read_proc(pid_t pid, const char *name, char *text, size_t size) {
        char path[64];
        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
        if (n <= 0)
                return false;
        text[n] = 0;
        return true;
}

static char process_state(pid_t pid, uint64_t *ret_start) {
        char text[1024], state = 0;
        unsigned long long start = 0;

        /* The command may contain anything, so count from its closing parenthesis: state is field 3, start time 22. */
        char *s = read_proc(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
        if (!s ||
                        sscanf(s + 1,
                                        " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                                        "%*d %*d %llu",
                                        &state, &start) != 2)
                return 0;
        *ret_start = start;
        return state;
}

uint64_t sim_start_time(pid_t pid) {
        uint64_t start = 0;
        char state = process_state(pid, &start);

        return state == 'Z' || state == 'X' ? 0 : start;
}

bool sim_is_stopped(pid_t pid) {
        uint64_t start;
        char state = process_state(pid, &start);

        return state == 'T' || state == 't';
}

pid_t sim_tracer(pid_t pid) {
        char text[4096];
        int tracer = 0;

        char *s = read_proc(pid, "status", text, sizeof(text)) ? strstr(text, "\nTracerPid:") : NULL;
        return s && sscanf(s, "\nTracerPid: %d", &tracer) == 1 ? tracer : 0;
}

static void process_remove(SimProcess *p) {
        SimWorld *w = sim_world();

        sim_proc_remove_process(p);
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (w->queues[i].process == p->number)
                        w->queues[i].process = SIM_NO_PROCESS;
        for (uint32_t i = 0; i < w->n_gpus; i++) {
                uint32_t number = p->number;
                sim_turn_want(w->gpus + i, number, false);
                (void) atomic_compare_exchange_strong(&w->gpus[i].holder, &number, SIM_NO_PROCESS);
                sim_gpu_notify(w->gpus + i);
        }
        *p = (SimProcess){0};
}

void sim_processes_sweep(void) {
        SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_PROCESSES_MAX; i++) {
                SimProcess *p = w->processes + i;
                if (p->number != SIM_NO_PROCESS && sim_start_time(p->pid) != p->start_time)
                        process_remove(p);
        }
}

SimProcess *sim_process_find(pid_t pid) {
        SimWorld *w = sim_world();

        sim_processes_sweep();
        for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
                if (w->processes[i].number != SIM_NO_PROCESS && w->processes[i].pid == pid)
                        return w->processes + i;
        return NULL;
}

SimProcess *sim_process_get(pid_t pid) {
        SimWorld *w = sim_world();
        SimProcess *p = sim_process_find(pid);

        if (p || sim_start_time(pid) == 0)
                return p;
        for (uint32_t i = 0; i < SIM_PROCESSES_MAX; i++)
                if (w->processes[i].number == SIM_NO_PROCESS) {
                        p = w->processes + i;
                        *p = (SimProcess){.number = i + 1, .pid = pid, .start_time = sim_start_time(pid)};
                        for (uint32_t k = 0; k < w->n_gpus; k++)
                                atomic_store(p->resets_told + k, atomic_load(&w->gpus[k].n_resets));
                        sim_proc_add_process(p);
                        return p;
                }
        return NULL;
}

/* A cached record is ours while it has our pid: no process removes the record of a live one. The record from before an
 * exec() is not ours. */
SimProcess *sim_process_self(void) {
        static SimProcess *self;
        static pid_t self_pid;
        pid_t pid = getpid();

        if (self_pid == pid)
                return self;
        if (self_pid == 0 && (self = sim_process_find(pid)))
                process_remove(self);
        self = sim_process_get(pid);
        self_pid = self ? pid : 0;
        return self;
}

/* Nobody tells when a process dies in a call: so the wait also ends by itself, to look again. */
static void await_call(SimProcess *p, pid_t caller) {
        const struct timespec look = ns_to_timespec(DEATH_LOOK_NS);

        (void) syscall(SYS_futex, &p->in_call, FUTEX_WAIT, caller, &look, NULL, 0);
}

bool sim_process_enter(SimProcess *p) {
        uint32_t number = p->number;
        pid_t pid = p->pid, caller;

        while ((caller = p->in_call) != 0 && sim_start_time(caller) != 0) {
                sim_unlock();
                await_call(p, caller);
                sim_lock();
                if (p->number != number || p->pid != pid)
                        return false;
        }
        p->in_call = getpid();
        return true;
}

void sim_process_leave(SimProcess *p) {
        if (p->in_call != getpid())
                return;
        p->in_call = 0;
        (void) syscall(SYS_futex, &p->in_call, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
