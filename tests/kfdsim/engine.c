/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The engine: a thread that executes this process's packets on one GPU
 *
 * A process's packets are executed by a thread of that process, because they use its memory; the processes share the
 * turn (turn.c). While the process has queues the engine looks at their doorbells: every POLL_BUSY_NS as long as
 * something happens, else every POLL_IDLE_NS.
 *
 * Simulated time follows real time, but lags behind by what the machine's own scheduling costs: a thread that sleeps
 * for 1 ms wakes up later. So a dispatch begins where the one before it ended, not when the engine woke up, and a
 * stretch in which the engine was not on a processor does not count as executed beyond the end of what it was doing.
 */

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>

#include "sim.h"

#define POLL_BUSY_NS (30 * NSEC_PER_USEC)
#define POLL_IDLE_NS (200 * NSEC_PER_USEC)
#define BUSY_NS      (2 * NSEC_PER_MSEC)
#define DEBUG_NS     (20 * NSEC_PER_MSEC)

typedef struct Engine {
        SimGpu *gpu;
        SimProcess *process;
        uint32_t number; /* of the process */
        uint64_t clock;  /* simulated: until when it has executed */
        SimQueue *queues[SIM_DOORBELLS];
        size_t n_queues, cursor;
        uint32_t queues_seen; /* SimProcess.queues_changed */
        uint64_t active_ns;   /* when something last happened */
        uint64_t debug_ns;    /* when it last looked after a debugger */
} Engine;

static bool started[SIM_GPUS_MAX];
static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t thread_runs;

void sim_engine_forget(void) {
        (void) pthread_mutex_init(&engines_lock, NULL);
        memset(started, 0, sizeof(started));
}

/* A ring tells that there are packets; the write index tells how many. If two rings come before the engine looks, the
 * cell has the later one, which may be the smaller one when a process rings from several threads. A GPU hears both. */
static void queue_poll_doorbell(SimQueue *q) {
        _Atomic uint64_t *cells = sim_doorbells(q->gpu);

        if (atomic_load(&q->mapped) && atomic_exchange(&q->is_looked_at, false) && sim_queue_is_executed(q))
                sim_packet_look(q);
        if (!cells || !atomic_load(&q->mapped) || atomic_load(cells + q->doorbell) == SIM_DOORBELL_SILENT)
                return;
        uint64_t value = atomic_exchange(cells + q->doorbell, SIM_DOORBELL_SILENT);
        sim_queue_ring(q, value);
        if (sim_queue_is_executed(q)) {
                sim_packet_check(q, value);
                sim_packet_look(q);
        }
}

static void gpu_thaw(SimGpu *g) {
        for (;;) {
                uint32_t seen = atomic_load(&g->event);
                uint64_t until = atomic_load(&g->frozen_until_ns);
                if (now_ns() >= until)
                        return;
                sim_gpu_wait(g, seen, until);
        }
}

/* Lets the packet at the head run until it is done, unmapped, or the turn is over. Returns true when it is done. */
static bool engine_run_head(Engine *e, SimQueue *q) {
        const SimOptions *o = &sim_world()->options;
        SimGpu *g = e->gpu;

        if (q->remaining_ns == 0) {
                q->remaining_ns = sim_packet_duration(q);
                q->begun_ns = e->clock;
        }
        while (q->remaining_ns > 0) {
                uint32_t seen = atomic_load(&g->event);
                if (o->cwsr &&
                                (!atomic_load(&q->mapped) || atomic_load(&q->halted) ||
                                                sim_turn_is_over(g, e->number) ||
                                                atomic_load(&g->frozen_until_ns) > now_ns()))
                        return false;
                uint64_t end = e->clock + q->remaining_ns;
                uint64_t quantum = atomic_load(&g->turn_since_ns) + o->quantum_ns;
                if (now_ns() < end)
                        sim_gpu_wait(g, seen, o->cwsr && sim_turn_is_wanted(g, e->number) ? MIN(end, quantum) : end);
                uint64_t reached = MIN(end, now_ns());
                if (o->cwsr && atomic_load(&g->holder) != e->number)
                        reached = MIN(reached, atomic_load(&g->turn_since_ns)); /* taken away meanwhile */
                e->clock = MAX(e->clock, reached);
                q->remaining_ns = end - e->clock;
        }
        return true;
}

/* A thread that unmaps the queue of a stopped process takes the execution over: the part of the packet that is done
 * counts, and the packet does not end before the queue is mapped again. */
static bool engine_end_packet(const Engine *e, SimQueue *q) {
        uint32_t expected = SIM_EXECUTING;

        if (!atomic_compare_exchange_strong(&q->execution, &expected, SIM_RETIRING)) {
                q->remaining_ns = 1;
                return false;
        }
        if (sim_packet_fault(q))
                return false;
        sim_packet_retire(q, e->clock);
        return true;
}

static void engine_leave(Engine *e, SimQueue *q) {
        atomic_store(&q->execution, SIM_IDLE);
        if (!atomic_load(&q->mapped) || atomic_load(&q->halted))
                sim_gpu_notify(e->gpu);
}

static void engine_execute(Engine *e, SimQueue *q) {
        e->clock = now_ns();
        for (bool done = true; done && !sim_turn_is_over(e->gpu, e->number);) {
                if (atomic_load(&e->gpu->frozen_until_ns) > now_ns()) {
                        gpu_thaw(e->gpu);
                        e->clock = now_ns();
                }
                e->clock = MAX(e->clock, ns_sub(now_ns(), sim_world()->options.quantum_ns));
                atomic_store(&q->execution, SIM_EXECUTING);
                done = sim_packet_is_ready(q) && engine_run_head(e, q) && engine_end_packet(e, q);
                engine_leave(e, q);
                queue_poll_doorbell(q);
        }
        e->active_ns = now_ns();
}

static void engine_list_queues(Engine *e) {
        SimWorld *w = sim_world();

        e->queues_seen = atomic_load(&e->process->queues_changed);
        e->n_queues = 0;
        sim_lock();
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (w->queues[i].process == e->number && w->gpus + w->queues[i].gpu == e->gpu &&
                                e->n_queues < ELEMENTSOF(e->queues))
                        e->queues[e->n_queues++] = w->queues + i;
        sim_unlock();
}

static SimQueue *engine_next_queue(Engine *e) {
        if (atomic_load(&e->process->queues_changed) != e->queues_seen)
                engine_list_queues(e);
        for (size_t i = 0; i < e->n_queues; i++) {
                SimQueue *q = e->queues[(e->cursor + i) % e->n_queues];
                queue_poll_doorbell(q);
                if (sim_packet_is_ready(q)) {
                        e->cursor = (e->cursor + i + 1) % e->n_queues;
                        return q;
                }
        }
        return NULL;
}

static void engine_look_after_debugger(Engine *e, uint64_t now) {
        if (!e->process->debugged || now < e->debug_ns + DEBUG_NS)
                return;
        e->debug_ns = now;
        sim_lock();
        sim_debug_sweep(e->process);
        sim_unlock();
}

static void engine_rest(Engine *e, uint32_t seen) {
        uint64_t now = now_ns();

        engine_look_after_debugger(e, now);
        sim_turn_want(e->gpu, e->number, false);
        if (atomic_load(&e->gpu->holder) == e->number)
                sim_turn_pass(e->gpu, e->number);
        if (e->n_queues == 0)
                sim_gpu_wait(e->gpu, seen, now + NSEC_PER_SEC);
        else
                sim_gpu_wait(e->gpu, seen, now + (now < e->active_ns + BUSY_NS ? POLL_BUSY_NS : POLL_IDLE_NS));
}

static void *engine_main(void *userdata) {
        static Engine engines[SIM_GPUS_MAX];
        uint32_t gpu = (uint32_t) (uintptr_t) userdata;
        Engine *e = engines + gpu;

        (void) prctl(PR_SET_NAME, "kfdsim-engine");
        (void) prctl(PR_SET_TIMERSLACK, 1UL);
        (void) sem_post(&thread_runs);
        sim_lock();
        SimProcess *p = sim_process_self();
        *e = (Engine){.gpu = sim_world()->gpus + gpu,
                        .process = p,
                        .number = p ? p->number : SIM_NO_PROCESS,
                        .queues_seen = UINT32_MAX,
                        .active_ns = now_ns()};
        sim_unlock();
        while (p) {
                uint32_t seen = atomic_load(&e->gpu->event);
                sim_reset_tell(p);
                SimQueue *q = engine_next_queue(e);
                if (!q) {
                        engine_rest(e, seen);
                        continue;
                }
                sim_turn_want(e->gpu, e->number, true);
                if (!sim_turn_take(e->gpu, e->number, POLL_IDLE_NS))
                        continue;
                engine_execute(e, q);
                if (sim_turn_is_over(e->gpu, e->number))
                        sim_turn_pass(e->gpu, e->number);
        }
        return NULL;
}

void sim_engine_start(uint32_t gpu) {
        pthread_attr_t attr;
        pthread_t thread;
        sigset_t all, old;

        (void) pthread_mutex_lock(&engines_lock);
        if (!started[gpu]) {
                pthread_attr_init(&attr);
                pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
                sigfillset(&all);
                (void) pthread_sigmask(SIG_SETMASK, &all, &old);
                (void) sem_init(&thread_runs, 0, 0);
                started[gpu] = pthread_create(&thread, &attr, engine_main, (void *) (uintptr_t) gpu) == 0;
                /* A thread that starts allocates memory, and sanitizers' allocators keep their locks over fork(). */
                while (started[gpu] && sem_wait(&thread_runs) < 0)
                        ;
                (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
                pthread_attr_destroy(&attr);
        }
        (void) pthread_mutex_unlock(&engines_lock);
}
