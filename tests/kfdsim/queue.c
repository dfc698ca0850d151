/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues of the simulated driver: making, updating, unmapping
 *
 * Whether a queue may execute is one function of its percentage, of what a debugger or a checkpoint did, and of nothing
 * else: queue_may_run(). sim_queues_apply() brings `mapped` there; it is where a call waits for the engine and where
 * the cost of a map is paid.
 *
 * The engine's half of the hand-shake: it sets `execution`, and then looks at `mapped`; here `mapped` is cleared, and
 * then `execution` is waited for. Both are sequentially consistent, so no engine executes a queue that has been
 * unmapped. The engine of a process that is stopped by a signal cannot answer: the execution is taken away from it
 * (EXECUTING becomes IDLE), and it finds that out before the packet's end (engine_end_packet()), because that needs
 * EXECUTING.
 */

#include <errno.h>

#include "abi.h"
#include "kfdsim.h"
#include "sim.h"

#define NOT_SUPPORTED 524 /* the kernel's own ENOTSUPP */
#define CU_MASK_MAX   1024U
#define SPIN_NS       (100 * NSEC_PER_USEC) /* short waits are exact */
#define PATIENCE_NS   (5 * NSEC_PER_MSEC)

bool sim_queue_is_of(const SimQueue *q, const SimProcess *p) {
        return q->process == p->number && q->process != SIM_NO_PROCESS && q->id != SIM_QUEUE_GONE;
}

SimQueue *sim_queue_find(const SimProcess *p, uint32_t id) {
        SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (sim_queue_is_of(w->queues + i, p) && w->queues[i].id == id)
                        return w->queues + i;
        return NULL;
}

static bool queue_may_run(const SimQueue *q, const SimProcess *p) {
        return q->percentage > 0 && !(q->flags & SIM_QUEUE_SUSPENDED) && p->n_evictions == 0;
}

/* Maps a queue. In strict mode, rings from the time while it was unmapped are lost. Packets that were fetched before
 * are fetched again. */
static void queue_map(const SimProcess *p, SimQueue *q) {
        if (sim_world()->options.strict)
                (void) sim_doorbell_take(p, q);
        atomic_store(&q->fetched, 0);
        atomic_store(&q->stalled, false);
        atomic_store(&q->mapped, true);
}

/* Without strict mode: at a map the hardware reads the write indices again, of all queues of the GPU, or, with MES, of
 * the one queue. Called under the lock. */
static void queues_read_again(const SimProcess *p, const SimQueue *only, SimGpu *g) {
        SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                SimQueue *q = w->queues + i;
                bool own = sim_queue_is_of(q, p);
                if (q->process == SIM_NO_PROCESS || q->id == SIM_QUEUE_GONE || w->gpus + q->gpu != g ||
                                !atomic_load(&q->mapped) || (g->mes && (!own || (only && q != only))))
                        continue;
                if (own && p->pid == getpid())
                        atomic_fetch_add(&g->n_torn, sim_packets_torn(q));
                atomic_store(&q->is_looked_at, true);
        }
        sim_gpu_notify(g);
}

/* Charges the cost of a map. Firmware does one map at a time; on an HWS GPU the queues of all processes stop
 * meanwhile. */
static void gpu_pay(SimGpu *g) {
        uint64_t cost = sim_world()->options.map_ns, until = now_ns() + cost;

        atomic_fetch_add(&g->n_maps, 1);
        if (!g->mes) {
                uint64_t frozen = atomic_load(&g->frozen_until_ns);
                do
                        until = MAX(frozen, now_ns()) + cost;
                while (!atomic_compare_exchange_weak(&g->frozen_until_ns, &frozen, until));
        }
        sim_gpu_notify(g);
        if (cost > SPIN_NS)
                while (now_ns() < until - SPIN_NS)
                        sim_gpu_wait(g, atomic_load(&g->event), until - SPIN_NS);
        while (now_ns() < until)
                ;
}

/* Waits until the engine has stopped the queue. Releases the lock meanwhile, because the engine may need it. */
static int queue_wait_stopped(SimQueue *q, const SimProcess *p) {
        SimGpu *g = sim_world()->gpus + q->gpu;
        uint64_t start = now_ns(), deadline = start + sim_world()->options.timeout_ns;
        uint32_t number = p->number;
        pid_t pid = p->pid;
        int r = 0;

        sim_unlock();
        for (;;) {
                uint32_t seen = atomic_load(&g->event), executing = SIM_EXECUTING;
                uint64_t now = now_ns();
                if (atomic_load(&q->execution) == SIM_IDLE || q->process != number || sim_start_time(pid) == 0)
                        break;
                if (now >= deadline) {
                        r = -ETIME;
                        break;
                }
                if (now >= start + PATIENCE_NS && sim_is_stopped(pid) &&
                                atomic_compare_exchange_strong(&q->execution, &executing, SIM_IDLE))
                        break;
                sim_gpu_wait(g, seen, MIN(deadline, now + PATIENCE_NS));
        }
        sim_lock();
        return r;
}

/* Returns the GPUs whose queues changed, as bits. */
static uint32_t queues_set_mapped(const SimProcess *p, const SimQueue *only) {
        SimWorld *w = sim_world();
        uint32_t changed = 0;

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                SimQueue *q = w->queues + i;
                if (!sim_queue_is_of(q, p) || (only && q != only) || atomic_load(&q->mapped) == queue_may_run(q, p))
                        continue;
                changed |= 1U << q->gpu;
                if (queue_may_run(q, p))
                        queue_map(p, q);
                else {
                        atomic_store(&q->mapped, false);
                        sim_queue_ring(q, sim_doorbell_take(p, q)); /* a ring that the engine has not seen */
                }
        }
        for (uint32_t i = 0; i < w->n_gpus; i++)
                if (changed & (1U << i))
                        sim_gpu_notify(w->gpus + i);
        return changed;
}

int sim_queues_apply(SimProcess *p, SimQueue *only) {
        SimWorld *w = sim_world();
        uint32_t number = p->number, changed = queues_set_mapped(p, only), paying = changed;
        int r = 0;

        for (size_t i = 0; i < SIM_QUEUES_MAX && p->number == number; i++) {
                SimQueue *q = w->queues + i;
                if (sim_queue_is_of(q, p) && (!only || q == only) && changed & (1U << q->gpu) &&
                                !atomic_load(&q->mapped))
                        r = queue_wait_stopped(q, p) ?: r;
        }
        /* Each update costs the same, whether or not it changes anything. Only MES handles single queues. */
        if (only && only->flags & SIM_QUEUE_UPDATED && !w->gpus[only->gpu].mes)
                paying |= 1U << only->gpu;
        sim_unlock();
        for (uint32_t i = 0; i < w->n_gpus; i++)
                if (paying & (1U << i))
                        gpu_pay(w->gpus + i);
        sim_lock();
        for (uint32_t i = 0; i < w->n_gpus && !w->options.strict; i++)
                if (paying & (1U << i))
                        queues_read_again(p, only, w->gpus + i);
        return r;
}

/* Whether the address is in the user's half. Whether there is memory shows later. */
static bool is_user_address(uint64_t address) {
        return address >> 47 == 0;
}

static int properties_check(uint32_t percentage, uint32_t priority, uint64_t ring, uint32_t ring_size) {
        if ((percentage & 0xff) > KFD_PERCENTAGE_MAX)
                return -EINVAL;
        if (priority > KFD_PRIORITY_MAX)
                return -EINVAL;
        if (!is_user_address(ring))
                return -EFAULT;
        if (ring_size != 0 && (ring_size & (ring_size - 1)) != 0)
                return -EINVAL;
        return 0;
}

static SimQueue *queue_new(const SimProcess *p, uint32_t gpu) {
        SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                SimQueue *q = w->queues + i;
                if (q->process == p->number && q->id == SIM_QUEUE_GONE && q->gpu == gpu)
                        return q;
        }
        for (size_t i = 0; i < SIM_QUEUES_MAX; i++)
                if (w->queues[i].process == SIM_NO_PROCESS)
                        return w->queues + i;
        return NULL;
}

static int queue_create_check(const KfdCreateQueue *a) {
        int r = properties_check(a->queue_percentage, a->queue_priority, a->ring_base_address, a->ring_size);
        if (r < 0)
                return r;
        if (!is_user_address(a->read_pointer_address) || !is_user_address(a->write_pointer_address) ||
                        !is_user_address(a->eop_buffer_address) || !is_user_address(a->ctx_save_restore_address))
                return -EFAULT;
        if (a->queue_type > KFD_QUEUE_SDMA_BY_ENGINE)
                return -NOT_SUPPORTED;
        if (a->ring_base_address == 0 && a->ring_size != 0)
                return -EINVAL;
        if (!sim_gpu_by_id(a->gpu_id))
                return -EINVAL;
        return a->write_pointer_address == 0 || a->read_pointer_address == 0 ? -EFAULT : 0;
}

static int queue_create(SimProcess *p, KfdCreateQueue *a) {
        int r = queue_create_check(a);
        if (r < 0)
                return r;

        SimGpu *g = sim_gpu_by_id(a->gpu_id);
        SimQueue *q = queue_new(p, sim_gpu_index(g));
        uint32_t id = 0;
        while (id < SIM_DOORBELLS && sim_queue_find(p, id))
                id++;
        if (!q || id >= SIM_DOORBELLS)
                return -ENOMEM;

        *q = (SimQueue){
                        .process = p->number,
                        .id = id,
                        .gpu = sim_gpu_index(g),
                        .type = a->queue_type,
                        .ring = a->ring_base_address,
                        .ring_size = a->ring_size,
                        .write_pointer = a->write_pointer_address,
                        .read_pointer = a->read_pointer_address,
                        .save_area = a->ctx_save_restore_address,
                        .save_area_size = a->ctx_save_restore_size,
                        .percentage = a->queue_percentage & 0xff,
                        .priority = a->queue_priority,
                        .doorbell = id,
                        .flags = SIM_QUEUE_NEW,
        };
        (void) sim_doorbell_take(p, q);
        sim_proc_add_queue(p, q);
        atomic_fetch_add(&p->queues_changed, 1);
        sim_engine_start(q->gpu);
        r = sim_queues_apply(p, q);
        a->queue_id = id;
        a->doorbell_offset = UINT64_C(3) << 62 | (uint64_t) g->gpu_id << 46 | id * sizeof(uint64_t);
        return r;
}

static int queue_update(SimProcess *p, const KfdUpdateQueue *a) {
        int r = properties_check(a->queue_percentage, a->queue_priority, a->ring_base_address, a->ring_size);
        if (r < 0)
                return r;
        SimQueue *q = sim_queue_find(p, a->queue_id);
        if (!q || a->ring_base_address != q->ring || a->ring_size != q->ring_size)
                return -EFAULT;
        q->n_updates++;
        if (q->flags & SIM_QUEUE_RESET && sim_world()->options.reset_eacces)
                return -EACCES;

        q->percentage = a->queue_percentage & 0xff;
        q->priority = a->queue_priority;
        q->flags |= SIM_QUEUE_UPDATED;
        r = sim_queues_apply(p, q);
        q->flags &= ~(unsigned) SIM_QUEUE_UPDATED;
        return r;
}

static int queue_destroy(SimProcess *p, const KfdDestroyQueue *a) {
        SimQueue *q = sim_queue_find(p, a->queue_id);
        if (!q)
                return -EINVAL;
        q->flags |= SIM_QUEUE_DYING;
        while (q->flags & SIM_QUEUE_SUSPENDED) {
                sim_process_leave(p);
                sim_unlock();
                (void) usleep(1000);
                sim_lock();
                (void) sim_process_enter(p);
        }

        /* The queue is gone, whatever the hardware answers. */
        q->percentage = 0;
        int r = sim_queues_apply(p, q);
        sim_proc_remove_queue(p, q);
        q->id = SIM_QUEUE_GONE;
        atomic_fetch_add(&p->queues_changed, 1);
        return r;
}

_public_
bool kfdsim_queue(uint32_t id, KfdsimQueue *ret) {
        sim_lock();
        SimProcess *p = sim_process_self();
        const SimQueue *q = p ? sim_queue_find(p, id) : NULL;
        if (q)
                *ret = (KfdsimQueue){
                                .percentage = q->percentage,
                                .priority = q->priority,
                                .mapped = atomic_load(&q->mapped),
                                .stalled = atomic_load(&q->stalled) || atomic_load(&q->halted),
                                .n_updates = q->n_updates,
                };
        sim_unlock();
        return q;
}

static int queue_set_cu_mask(const SimProcess *p, const KfdSetCuMask *a) {
        uint32_t mask[CU_MASK_MAX / 32];

        if (a->num_cu_mask % 32 != 0 || a->num_cu_mask == 0)
                return -EINVAL;
        if (sim_copy_in(mask, a->cu_mask_ptr, MIN(a->num_cu_mask, CU_MASK_MAX) / 8) < 0)
                return -EFAULT;
        return sim_queue_find(p, a->queue_id) ? 0 : -EFAULT;
}

static int queue_wave_state(const SimProcess *p, const KfdWaveState *a) {
        return sim_queue_find(p, a->queue_id) ? -EINVAL : -EFAULT;
}

int sim_queue_ioctl(SimProcess *p, KfdNr nr, void *arg) {
        int r = 0;

        sim_lock();
        (void) sim_process_enter(p);
        switch (nr) {
        case KFD_NR_CREATE_QUEUE:
                r = queue_create(p, arg);
                break;
        case KFD_NR_UPDATE_QUEUE:
                r = queue_update(p, arg);
                break;
        case KFD_NR_DESTROY_QUEUE:
                r = queue_destroy(p, arg);
                break;
        case KFD_NR_SET_CU_MASK:
                r = queue_set_cu_mask(p, arg);
                break;
        case KFD_NR_GET_QUEUE_WAVE_STATE:
                r = queue_wave_state(p, arg);
                break;
        default:
                r = -EINVAL;
        }
        sim_process_leave(p);
        sim_unlock();
        return r;
}
