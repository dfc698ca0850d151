/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues on /dev/kfd: records, the application's calls about them, and verdicts
 */

#include "shim/kfd/kfd-queue.h"
#include "kfd-libc.h"
#include "kfd-poll.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "common/page.h"
#include "shim/kfd/kfd-aql.h"
#include "shim/kfd/kfd-doorbell.h"

#define DOORBELLS_SIZE 8192U /* of 8 bytes each */

/* The structure may grow after 1.17. */
#define CREATE_SIZE_MAX 256U

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool queues_locked __attribute__((tls_model("initial-exec")));
static KfdQueue *queues;
static KfdGpu *gpus;

bool kfd_lock(void) {
        if (queues_locked)
                return false;
        queues_locked = true;
        (void) pthread_mutex_lock(&queues_lock);
        return true;
}

void kfd_unlock(void) {
        (void) pthread_mutex_unlock(&queues_lock);
        queues_locked = false;
}

#define KFD_LOCKED()                                                                                                   \
        _cleanup_(kfd_unlockp)                                                                                         \
        bool _locked = kfd_lock();                                                                                     \
        if (!_locked)

KfdQueue *kfd_queues(void) {
        return queues;
}

/* In kernels before 7.2 all files of a process share its queues. */
static KfdQueue *queue_find(unsigned context, uint32_t id) {
        KfdQueue *other = NULL;

        for (KfdQueue *q = queues; q; q = q->next)
                if (q->hal.id == id) {
                        if (q->context == context)
                                return q;
                        other = q;
                }
        return other;
}

/* --- GPUs --- */

static const KfdHalQueue *gpu_next_queue(const KfdHalDevice *d, const KfdHalQueue *after) {
        const KfdQueue *q = after ? container_of((KfdHalQueue *) after, KfdQueue, hal)->next : queues;

        while (q && &q->gpu->hal != d)
                q = q->next;
        return q ? &q->hal : NULL;
}

static KfdGpu *gpu_get(uint32_t gpu_id) {
        for (KfdGpu *g = gpus; g; g = g->next)
                if (g->node.gpu_id == gpu_id)
                        return g;

        KfdGpu *g = calloc(1, sizeof(KfdGpu));
        if (!g)
                return NULL;
        if (kfd_topology_find(KFD_TOPOLOGY_PATH, gpu_id, &g->node) < 0) {
                free(g);
                return NULL;
        }
        kfd_node_device_id(&g->node, g->device);
        kfd_node_gfx_name(&g->node, g->name);
        g->hal.level = LEVEL_INTERRUPT;
        g->hal.next_queue = gpu_next_queue;
        g->next = gpus;
        gpus = g;
        return g;
}

/* Maps the process's page of doorbells, which the driver allows any number of times. Returns NULL when we cannot
 * ring. */
static KfdDoorbells *gpu_doorbells(KfdGpu *g, unsigned context, uint64_t offset) {
        for (KfdDoorbells *d = g->doorbells; d; d = d->next)
                if (d->context == context)
                        return d;

        KfdDoorbells *d = kfd_node_has_wide_doorbells(&g->node) ? calloc(1, sizeof(KfdDoorbells)) : NULL;
        if (!d)
                return NULL;
        void *p = mmap(NULL, DOORBELLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, kfd_context_fd(context),
                        (off_t) (offset & ~(uint64_t) (DOORBELLS_SIZE - 1)));
        if (p == MAP_FAILED) {
                free(d);
                return NULL;
        }
        *d = (KfdDoorbells){.cells = p, .context = context, .next = g->doorbells};
        g->doorbells = d;
        return d;
}

static void gpu_drop_doorbells(KfdGpu *g, unsigned context) {
        for (KfdDoorbells **link = &g->doorbells, *d; (d = *link);)
                if (d->context == context) {
                        *link = d->next;
                        (void) munmap((void *) d->cells, DOORBELLS_SIZE);
                        free(d);
                } else
                        link = &d->next;
}

static bool gpu_is_held(const KfdGpu *g) {
        for (const KfdQueue *q = queues; q; q = q->next)
                if (q->gpu == g && (q->hal.hal.held || q->lent) && !q->follows)
                        return true;
        return false;
}

/* EACCES: the queue was reset, and never runs again. Newer drivers unmap the queues of all processes for each call
 * about it, and leave it to others' calls to map them again (update_queue()): so there are no more, once that is sure.
 */
static int queue_release(KfdQueue *q) {
        HalQueue *hal = &q->hal.hal;
        int r = hal_kfd_ops.release(&hal, 1);
        if (r != -EACCES)
                return r;
        kfd_fault_ask(kfd_context_ioctl);
        if (kfd_queue_has_faulted(q))
                kfd_poll_set_lost(q, true);
        return q->hal.lost ? hal_kfd_ops.release(&hal, 1) : r;
}

bool kfd_release_followers(void) {
        bool done = true;

        for (KfdQueue *q = queues; q; q = q->next) {
                if (!q->follows || gpu_is_held(q->gpu))
                        continue;
                q->follows = queue_release(q) < 0;
                done &= !q->follows;
        }
        return done;
}

/* --- verdicts, on libxsched's control thread --- */

static HalQueue *batch[PAGE_SLOTS_MAX];

static uint32_t batch_fill(void *const *userdata, uint32_t n) {
        uint32_t k = 0;

        for (uint32_t i = 0; i < MIN(n, (uint32_t) ELEMENTSOF(batch)); i++) {
                KfdQueue *q = userdata[i];
                if (q->gone)
                        continue;
                if (kfd_queue_has_faulted(q))
                        kfd_poll_set_lost(q, true);
                batch[k++] = &q->hal.hal;
        }
        return k;
}

static KfdQueue *batch_queue(uint32_t i) {
        KfdHalQueue *hal = container_of(batch[i], KfdHalQueue, hal);
        return container_of(hal, KfdQueue, hal);
}

static void gpu_lower_levels(const KfdGpu *g) {
        for (KfdQueue *q = g->hal.degraded ? queues : NULL; q; q = q->next)
                if (q->gpu == g && q->xsched)
                        xsched_queue_lower_level(q->xsched, LEVEL_GATE);
}

static int batch_hold(KfdGpu *g, uint32_t n) {
        if (g->hal.degraded)
                return -EOPNOTSUPP;

        int r = hal_kfd_ops.hold(batch, n);
        for (uint32_t i = 0; r >= 0 && i < n; i++)
                batch_queue(i)->follows = batch_queue(i)->lent = false;
        gpu_lower_levels(g);
        return r;
}

/* One by one, so that a queue that the driver has lost does not fail the others. */
static int batch_release(const KfdGpu *g, uint32_t n) {
        int result = 0;

        for (uint32_t i = 0; i < n; i++) {
                int r = queue_release(batch_queue(i));
                if (r < 0)
                        result = r;
                else
                        batch_queue(i)->follows = batch_queue(i)->lent = false;
        }
        (void) kfd_release_followers();
        gpu_lower_levels(g);
        return result;
}

void kfd_hold_lent(KfdQueue *q) {
        q->lent = false;
        batch[0] = &q->hal.hal;
        (void) batch_hold(q->gpu, 1);
}

static int queue_apply(XschedQueue *const *unused, void *const *userdata, uint32_t n, int held) {
        KFD_LOCKED() return -EBUSY;

        n = batch_fill(userdata, n);
        if (n == 0)
                return 0;
        KfdGpu *g = batch_queue(0)->gpu;
        int r = held ? batch_hold(g, n) : batch_release(g, n);
        kfd_poll_kick();
        return r;
}

static void queue_drain(XschedQueue *x, void *userdata) {
        KfdQueue *q = userdata;

        KFD_LOCKED() return;
        if (!q->gone)
                kfd_poll_drain(q);
}

static void queue_destroy(void *userdata) {
        free(userdata);
}

/* --- making and unmaking records --- */

static bool holds_sdma(void) {
        return streq(strempty(secure_getenv("XSCHED_HOLD_SDMA")), "1");
}

static bool type_is_scheduled(uint32_t type) {
        return kfd_queue_type_is_compute(type) || holds_sdma();
}

static void queue_schedule(KfdQueue *q, bool saves_waves) {
        bool aql = q->hal.type == KFD_QUEUE_COMPUTE_AQL;
        char label[32];

        (void) snprintf(label, sizeof(label), q->adopted ? "HSA queue %u" : "queue %u",
                        q->adopted ? (uint32_t) q->aql->hsa_queue.id : q->hal.id);
        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = q->gpu->device,
                        .device_name = q->gpu->name,
                        .backend = "kfd",
                        .label = label,
                        .drain = aql ? queue_drain : NULL,
                        .userdata = q,
                        .destroy = queue_destroy,
                        .level = q->gpu->hal.degraded || q->adopted ? LEVEL_GATE
                                                                    : kfd_hal_level(&q->gpu->node, saves_waves),
                        .apply = q->adopted ? NULL : queue_apply,
                        .kfd_gpu_id = q->adopted ? 0 : q->gpu->node.gpu_id,
                        .kfd_queue_id = q->adopted ? 0 : q->hal.id,
                        .hooked = kfd_queue_hooked(q),
        };
        if (xsched_queue_new(&info, &q->xsched) < 0 || !aql)
                return;

        /* Nothing announces launches of this queue: count one from the start. */
        if (xsched_queue_begin_nowait(q->xsched) == XSCHED_TRACKED) {
                xsched_queue_complete(q->xsched, 1, 0);
                q->tracking = true;
        }
        kfd_poll_start();
}

static void queue_know_doorbell(KfdQueue *q) {
        kfd_doorbells_forget(NULL); /* the runtime may make a proxy for it at an address in the table */
        kfd_doorbell_add((uintptr_t) q->aql, q);
        kfd_doorbell_add(q->aql->hsa_queue.doorbell_signal.handle, q);
}

static void queue_add(unsigned context, const KfdCreateQueue *a, bool held) {
        KfdGpu *g = gpu_get(a->gpu_id);
        KfdQueue *q = g ? calloc(1, sizeof(KfdQueue)) : NULL;
        if (!q)
                return;

        kfd_hal_init(&q->hal, &g->hal);
        q->hal.ioctl = kfd_context_ioctl;
        q->hal.fd = (int) context;
        q->hal.id = a->queue_id;
        q->hal.type = a->queue_type;
        q->hal.ring = a->ring_base_address;
        q->hal.ring_size = a->ring_size;
        q->hal.percentage = a->queue_percentage;
        q->hal.priority = a->queue_priority;
        q->hal.write_index = (const _Atomic uint64_t *) (uintptr_t) a->write_pointer_address;
        q->hal.read_index = (const _Atomic uint64_t *) (uintptr_t) a->read_pointer_address;
        q->hal.rung = &q->rung;
        q->first_read = q->hal.type == KFD_QUEUE_COMPUTE_AQL ? atomic_load(q->hal.read_index) : 0;
        q->hal.hal.held = q->follows = held;
        q->gpu = g;
        q->context = context;

        KfdDoorbells *d = gpu_doorbells(g, context, a->doorbell_offset);
        if (d)
                q->hal.doorbell = d->cells + (a->doorbell_offset & (DOORBELLS_SIZE - 1)) / sizeof(uint64_t);
        q->next = queues;
        queues = q;
        if (!type_is_scheduled(q->hal.type))
                return;
        kfd_fault_begin(kfd_context_ioctl, context);
        const AmdQueue *aql = q->aql = kfd_aql_find(a);
        queue_schedule(q, a->ctx_save_restore_size > 0 && kfd_cwsr_enabled() != 0);
        if (!aql || !q->xsched)
                return;
        queue_know_doorbell(q);
}

static void queue_remove(KfdQueue *q) {
        KfdQueue **link = &queues;

        while (*link != q)
                link = &(*link)->next;
        *link = q->next;
        q->gone = true;
        kfd_doorbells_forget(q);
        if (!kfd_release_followers())
                kfd_poll_kick();
        if (q->xsched) {
                kfd_poll_end_launches(q);      /* the driver has taken it off the device, with all that was in flight */
                xsched_queue_unref(q->xsched); /* which frees it in the end */
        } else
                free(q);
}

/* A profiler's proxy is a copy of the queue that it represents, with another ring, doorbell and indices. Both have the
 * same inactive signal, and no two real queues share one. */
static KfdQueue *queue_behind(const AmdQueue *proxy) {
        if (!kfd_aql_is_readable(proxy, sizeof(*proxy)) || proxy->inactive_signal.handle == 0)
                return NULL;
        for (KfdQueue *q = queues; q; q = q->next)
                if (q->aql && q->xsched && q->aql->inactive_signal.handle == proxy->inactive_signal.handle &&
                                q->aql->hsa_queue.size == proxy->hsa_queue.size)
                        return q;
        return NULL;
}

/* Under the lock. */
static void meet(const HsaQueue *queue) {
        KfdQueue *q = queue_behind((const AmdQueue *) queue), *known;
        if (kfd_doorbell_look((uintptr_t) queue, &known))
                return;
        kfd_doorbell_add((uintptr_t) queue, q);
        if (!q)
                return;
        kfd_doorbell_add(queue->doorbell_signal.handle, q);
        atomic_store(&q->intercepted, true);
        atomic_store(&q->rung, 0); /* its doorbells do not count from here on */
}

static bool lock_now(void) {
        if (queues_locked)
                return false;
        queues_locked = true; /* before, as in kfd_lock() */
        queues_locked = pthread_mutex_trylock(&queues_lock) == 0;
        return queues_locked;
}

bool kfd_queue_meet(const HsaQueue *queue, bool wait) {
        PROTECT_ERRNO;
        _cleanup_(kfd_unlockp)
        bool locked = wait ? kfd_lock() : lock_now();

        if (locked)
                meet(queue);
        return locked;
}

/* --- queues that the kernel was not seen to be asked for --- */

static KfdGpu *gpu_of_node(uint32_t node) {
        KfdNode n;

        return kfd_topology_read(KFD_TOPOLOGY_PATH, node, &n) < 0 ? NULL : gpu_get(n.gpu_id);
}

static KfdQueue *queue_with_index(const void *write_index) {
        for (KfdQueue *q = queues; q; q = q->next)
                if ((const void *) q->hal.write_index == write_index)
                        return q;
        return NULL;
}

/* Called under the lock. Does nothing for a proxy, which is no queue, and for a queue that is known already. */
static void adopt(uint32_t node, const AmdQueue *aql) {
        bool known = !aql || queue_with_index(&aql->write_index) || queue_behind(aql);
        KfdGpu *g = known ? NULL : gpu_of_node(node);
        KfdQueue *q = g ? calloc(1, sizeof(KfdQueue)) : NULL;
        if (!q)
                return;

        kfd_hal_init(&q->hal, &g->hal);
        q->hal.id = UINT32_MAX; /* none of the kernel's */
        q->hal.type = KFD_QUEUE_COMPUTE_AQL;
        q->hal.write_index = (const _Atomic uint64_t *) &aql->write_index;
        q->hal.read_index = (const _Atomic uint64_t *) &aql->read_index;
        q->hal.rung = &q->rung;
        q->first_read = atomic_load(q->hal.read_index);
        q->gpu = g;
        q->adopted = true;
        q->aql = aql;
        q->next = queues;
        queues = q;
        queue_schedule(q, false);
        if (q->xsched)
                queue_know_doorbell(q);
}

void kfd_queue_adopt(uint32_t node, const HsaQueue *queue) {
        PROTECT_ERRNO;

        if (!kfd_start())
                return;
        KFD_LOCKED() return;
        adopt(node, kfd_aql_of(queue));
        meet(queue); /* if it was not adopted, find the queue that it belongs to */
}

void kfd_queue_abandon(const HsaQueue *queue) {
        PROTECT_ERRNO;

        if (!kfd_has_doorbells())
                return;
        KFD_LOCKED() return;
        for (KfdQueue *q = queues, *next; q; q = next) {
                next = q->next;
                if (q->adopted && (!queue || &q->aql->hsa_queue == queue))
                        queue_remove(q);
        }
        kfd_doorbells_forget(NULL); /* the next queue may be at its address */
}

void kfd_queue_check_adopted(KfdQueue *q) {
        if (q->adopted && kfd_aql_of(&q->aql->hsa_queue) != q->aql)
                queue_remove(q);
}

void kfd_context_end(unsigned context) {
        for (KfdQueue *q = queues, *next; q; q = next) {
                HalQueue *hal = &q->hal.hal;
                next = q->next;
                if (q->context != context)
                        continue;
                (void) hal_kfd_ops.release(&hal, 1);
                queue_remove(q);
        }
        for (KfdGpu *g = gpus; g; g = g->next)
                gpu_drop_doorbells(g, context);
        kfd_fault_end(kfd_context_ioctl, context);
}

/* The records stay where they are: the parent's lists may have been in the middle of a change. The driver's mappings
 * are not inherited. */
void kfd_queues_after_fork(void) {
        (void) pthread_mutex_init(&queues_lock, NULL);
        queues_locked = false;
        queues = NULL;
        gpus = NULL;
}

/* --- the application's calls --- */

static bool starts_held(const KfdCreateQueue *a) {
        if (!type_is_scheduled(a->queue_type) || (a->queue_percentage & 0xff) > KFD_PERCENTAGE_MAX)
                return false;
        for (const KfdGpu *g = gpus; g; g = g->next)
                if (g->node.gpu_id == a->gpu_id)
                        return gpu_is_held(g);
        return false;
}

/* Keeps the percentage that the application asked for, which the application sees. */
static int create_held(int fd, unsigned long request, void *arg, size_t size) {
        union {
                KfdCreateQueue a;
                char bytes[CREATE_SIZE_MAX];
        } u;

        /* All that the kernel would read: a program newer than we are may have more to say. */
        if (!arguments_read(&u, arg, size))
                return kfd_next_ioctl(fd, request, arg);
        uint32_t requested = u.a.queue_percentage;
        u.a.queue_percentage = kfd_hal_effective(requested, true);
        int r = kfd_next_ioctl(fd, request, &u);
        u.a.queue_percentage = requested;
        if (!arguments_write(arg, &u, size)) {
                errno = EFAULT;
                return -1;
        }
        return r;
}

int kfd_create_queue(unsigned context, int fd, unsigned long request, void *arg) {
        size_t size = _IOC_SIZE(request);
        KfdCreateQueue a = {};

        KFD_LOCKED() return kfd_next_ioctl(fd, request, arg);
        if (size < offsetof(KfdCreateQueue, eop_buffer_address) || !arguments_read(&a, arg, MIN(size, sizeof(a))))
                return kfd_next_ioctl(fd, request, arg);

        bool held = size <= CREATE_SIZE_MAX && starts_held(&a);
        int r = held ? create_held(fd, request, arg, size) : kfd_next_ioctl(fd, request, arg);
        if (r < 0)
                return r;
        PROTECT_ERRNO;
        if (arguments_read(&a, arg, MIN(size, sizeof(a))))
                queue_add(context, &a, held);
        return r;
}

/* Whether the kernel gets the update with the percentage of a held queue. An update that the kernel would refuse is
 * passed on as it is. */
static bool update_is_virtual(const KfdQueue *q, const KfdUpdateQueue *a) {
        return q && q->hal.hal.held && (a->queue_percentage & 0xff) <= KFD_PERCENTAGE_MAX;
}

int kfd_update_queue(unsigned context, int fd, unsigned long request, void *arg) {
        KfdUpdateQueue a;

        KFD_LOCKED() return kfd_next_ioctl(fd, request, arg);
        if (_IOC_SIZE(request) != sizeof(a) || !arguments_read(&a, arg, sizeof(a)))
                return kfd_next_ioctl(fd, request, arg);

        KfdQueue *q = queue_find(context, a.queue_id);
        KfdUpdateQueue effective = a;
        effective.queue_percentage = kfd_hal_effective(a.queue_percentage, true);
        int r = kfd_next_ioctl(fd, request, update_is_virtual(q, &a) ? (void *) &effective : arg);
        if (!q)
                return r;
        if (r < 0) {
                /* After any other error than these two, the driver may have done a part. */
                q->hal.unsure |= errno != EINVAL && errno != EFAULT;
                return r;
        }
        q->hal.ring = a.ring_base_address;
        q->hal.ring_size = a.ring_size;
        q->hal.percentage = a.queue_percentage;
        q->hal.priority = a.queue_priority;
        q->hal.unsure = false;
        if (kfd_queue_is_stopped(q) != q->rests)
                kfd_poll_kick();
        return r;
}

/* Whether the queue is gone. The driver does not take back a removal that it has begun: after a preemption that timed
 * out the queue is gone, and after other errors of the hardware it is half gone, and must not be used again. */
static bool is_destroyed(int r) {
        return r >= 0 || errno == ETIME || errno == EIO || errno == ENODEV || errno == EINVAL;
}

int kfd_destroy_queue(unsigned context, int fd, unsigned long request, void *arg) {
        KfdDestroyQueue a;

        KFD_LOCKED() return kfd_next_ioctl(fd, request, arg);
        if (_IOC_SIZE(request) != sizeof(a) || !arguments_read(&a, arg, sizeof(a)))
                return kfd_next_ioctl(fd, request, arg);

        KfdQueue *q = queue_find(context, a.queue_id);
        int r = kfd_next_ioctl(fd, request, arg);
        if (q && is_destroyed(r)) {
                PROTECT_ERRNO;
                queue_remove(q);
        }
        return r;
}
