/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Resets of a GPU, and of one queue
 *
 * A GPU: the driver takes the queues of all processes off all GPUs, resets the one, and leaves the processes so, until
 * they end ("KFD won't be able to resume existing process for now", kgd2kfd_post_reset()); processes that come later
 * use the GPU as ever. It tells all processes by their events for hardware exceptions, and after an error of the GPU's
 * memory by those for memory faults as well (kfd_signal_reset_event()).
 *
 * Events are in a process's own memory, so an engine of each process raises them.
 */

#include "abi.h"
#include "kfdsim.h"
#include "sim.h"

void sim_gpu_reset(SimGpu *g, uint32_t cause) {
        SimWorld *w = sim_world();

        sim_lock();
        sim_processes_sweep();
        for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
                w->processes[i].n_evictions += w->processes[i].number != SIM_NO_PROCESS;
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                SimQueue *q = w->queues + i;
                if (q->process == SIM_NO_PROCESS || q->id == SIM_QUEUE_GONE)
                        continue;
                if (w->gpus + q->gpu == g)
                        q->flags |= SIM_QUEUE_RESET;
                atomic_store(&q->mapped, false);
        }
        atomic_store(&g->reset_cause, cause);
        atomic_fetch_add(&g->n_resets, 1);
        sim_unlock();
        for (uint32_t i = 0; i < w->n_gpus; i++)
                sim_gpu_notify(w->gpus + i);
}

/* Whether an engine is still with a queue that was stopped. */
static bool process_executes(const SimProcess *p) {
        SimWorld *w = sim_world();
        bool executes = false;

        sim_lock();
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                const SimQueue *q = w->queues + i;
                executes |= sim_queue_is_of(q, p) && q->flags & SIM_QUEUE_RESET &&
                                atomic_load(&q->execution) != SIM_IDLE;
        }
        sim_unlock();
        return executes;
}

/* An engine tells of it when it leaves a queue that was stopped. */
static void await_engines(const SimProcess *p, SimGpu *g) {
        for (;;) {
                uint32_t seen = atomic_load(&g->event);
                if (!process_executes(p))
                        return;
                sim_gpu_wait(g, seen, NSEC_INFINITY);
        }
}

static void tell(SimProcess *p, SimGpu *g, uint32_t cause) {
        const KfdHwException e = {.reset_cause = cause, .memory_lost = 1, .gpu_id = g->gpu_id};
        const KfdMemoryFault fault = {.imprecise = 1, .error_type = KFD_MEMORY_ERROR_ECC, .gpu_id = g->gpu_id};

        await_engines(p, g);
        sim_event_reset(&e);
        if (cause == KFD_RESET_ECC)
                sim_event_fault(&fault);
}

void sim_reset_tell(SimProcess *p) {
        SimWorld *w = sim_world();

        for (uint32_t i = 0; i < w->n_gpus; i++) {
                uint32_t n = atomic_load(&w->gpus[i].n_resets), told = atomic_load(p->resets_told + i);
                if (n != told && atomic_compare_exchange_strong(p->resets_told + i, &told, n))
                        tell(p, w->gpus + i, atomic_load(&w->gpus[i].reset_cause));
        }
}

/* The process is told of that as of a reset of the GPU, and no other process is told. */
_public_
void kfdsim_reset_queue(uint32_t id) {
        sim_lock();
        SimProcess *p = sim_process_self();
        SimQueue *q = p ? sim_queue_find(p, id) : NULL;
        if (q) {
                q->flags |= SIM_QUEUE_RESET;
                atomic_store(&q->halted, true);
        }
        sim_unlock();
        if (!q)
                return;
        sim_gpu_notify(sim_world()->gpus + q->gpu);
        tell(p, sim_world()->gpus + q->gpu, KFD_RESET_HANG);
}
