/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The registry of command queues
 *
 * Lookups read an open-addressing table without a lock; changes are made under one mutex. A table that is full is
 * replaced by a larger one and never freed (a reader may still be in it): all old ones together are smaller than the
 * newest. Keys stay in a table when their queue goes, which costs little, since runtimes hand out the same addresses
 * again.
 */

#include "common/thread-util.h"
#include "shim/late/late.h"
#include "shim/opencl/opencl-device.h"
#include "shim/opencl/opencl-launch.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"
#include "shim/opencl/opencl-track.h"

#define TABLE_MIN   64U
#define SLAB_QUEUES 16U

/* What is in force before the first queue, in a child after fork, and when memory runs out: knows nothing. */
static union {
        OpenclTable table;
        char room[sizeof(OpenclTable) + sizeof(OpenclTableEntry)];
} table_empty;

_Atomic(OpenclTable *) opencl_table = &table_empty.table;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static OpenclQueue *free_queues;
static pthread_once_t once = PTHREAD_ONCE_INIT;

OpenclQueue *opencl_queue_find(cl_command_queue handle) {
        return opencl_table_find(atomic_load_explicit(&opencl_table, memory_order_acquire), handle);
}

/* The child has none of the parent's threads: whoever held a lock of ours is gone, and so are the runtime's workers
 * that would call our sentinels. The parent's queues pass unscheduled in the child; queues that it makes are its
 * own. */
static void fork_child(void) {
        atomic_store(&opencl_table, &table_empty.table);
        atomic_store(&opencl_n_tracked, 0);
        opencl_own_fork_child();
        registry_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        free_queues = NULL;
        opencl_thread = (OpenclThread){};
}

/* The runtime is there, and what it has registered for the end of the process comes after this, whatever order our
 * destructor has among others: preloaded, it would be the last. */
static void at_exit(void) {
        PROTECT_ERRNO;
        opencl_own_stop();
        opencl_queue_forget_all();
}

static void with_first_queue(void) {
        (void) thread_atfork(NULL, NULL, fork_child);
        (void) atexit(at_exit);
}

/* --- records --- */

static OpenclQueue *queue_alloc(void) {
        if (!free_queues) {
                OpenclQueue *slab =
                                aligned_alloc(64, SLAB_QUEUES * DIV_ROUND_UP(sizeof(OpenclQueue), 64) * 64);
                if (!slab)
                        return NULL;
                memset(slab, 0, SLAB_QUEUES * sizeof(OpenclQueue));
                for (size_t i = 0; i < SLAB_QUEUES; i++) {
                        (void) pthread_mutex_init(&slab[i].lock, NULL);
                        slab[i].next_free = free_queues;
                        free_queues = slab + i;
                }
        }
        OpenclQueue *q = free_queues;
        free_queues = q->next_free;
        return q;
}

/* Everything but the lock and `life`, which readers with a stale pointer may still look at. */
static void queue_reset(OpenclQueue *q) {
        q->xq = NULL;
        q->handle = NULL;
        q->head = q->n = 0;
        q->last_seq = q->done_seq = q->unsafe_seq = q->known_seq = 0;
        q->harvesting = q->again = q->waited = false;
        q->saturated_since_ns = q->started_ns = q->looked_ns = 0;
        atomic_store(&q->head_since_ns, 0);
        q->n_above = q->n_held = 0;
        atomic_store(&q->was_held, false);
        atomic_store(&q->flying_ns, 0);
        opencl_time_reset(q);
        atomic_store(&q->waits_unknown, false);
        atomic_store(&q->n_tracked, 0);
        atomic_store(&q->multi_threaded, false);
        atomic_store(&q->bound_waiters, 0);
        atomic_store(&q->grace, 0);
        atomic_store(&q->doubt, 0);
        atomic_store(&q->pins, 0);
        atomic_store(&q->app_refs, 1);
        q->idle = q->wake = NULL;
        opencl_tail_reset(q);
}

void opencl_queue_ref(OpenclQueue *q) {
        atomic_fetch_add(&q->life, 1);
}

void opencl_queue_unref(OpenclQueue *q) {
        if (atomic_fetch_sub(&q->life, 1) != 1)
                return;

        /* Left over only where the runtime refused us a callback, or a marker. */
        uint32_t n = (uint32_t) (q->n - q->head), n_launches = 0;
        for (size_t i = q->head; i < q->n; i++) {
                if (q->tracked[i].event)
                        (void) opencl_next.clReleaseEvent(q->tracked[i].event);
                n_launches += !q->tracked[i].point;
        }
        atomic_fetch_sub(&opencl_n_tracked, n);
        if (n_launches > 0)
                xsched_queue_complete(q->xq, n_launches, 0);
        xsched_queue_unref(TAKE_PTR(q->xq));

        free(TAKE_PTR(q->tracked));
        q->allocated = 0;
        queue_reset(q);
        (void) pthread_mutex_lock(&registry_lock);
        q->next_free = free_queues;
        free_queues = q;
        (void) pthread_mutex_unlock(&registry_lock);
}

/* Fails on a record that nobody uses. The caller may have come too late, and hold that of another queue by now. */
static bool queue_try_ref(OpenclQueue *q) {
        uint32_t life = atomic_load(&q->life);
        do {
                if (life == 0)
                        return false;
        } while (!atomic_compare_exchange_weak(&q->life, &life, life + 1));
        return true;
}

OpenclQueue *opencl_queue_get(cl_command_queue handle) {
        OpenclQueue *q = handle ? opencl_queue_find(handle) : NULL;
        if (!q || !queue_try_ref(q))
                return NULL;
        if (opencl_queue_find(handle) == q)
                return q;
        opencl_queue_unref(q);
        return NULL;
}

/* A pin is a reference, too: the record outlives its pins. */
bool opencl_queue_pin(OpenclQueue *q) {
        if (!queue_try_ref(q))
                return false;

        uint32_t pins = atomic_load(&q->pins);
        do {
                if (pins & OPENCL_QUEUE_DROPPED) {
                        opencl_queue_unref(q);
                        return false;
                }
        } while (!atomic_compare_exchange_weak(&q->pins, &pins, pins + 1));
        return true;
}

void opencl_queue_unpin(OpenclQueue *q) {
        if (atomic_fetch_sub(&q->pins, 1) == (OPENCL_QUEUE_DROPPED | 1))
                (void) opencl_next.clReleaseCommandQueue(q->handle);
        opencl_queue_unref(q);
}

/* --- the table, under the lock --- */

static OpenclTableEntry *table_slot(OpenclTable *t, cl_command_queue handle) {
        size_t i = opencl_table_hash(t, handle);
        for (;; i = (i + 1) & t->mask) {
                cl_command_queue key = atomic_load(&t->entries[i].key);
                if (!key || key == handle)
                        return t->entries + i;
        }
}

static void table_put(OpenclTable *t, cl_command_queue handle, OpenclQueue *q) {
        OpenclTableEntry *e = table_slot(t, handle);
        bool fresh = !atomic_load(&e->key);

        /* A reader that finds the key finds the queue. */
        atomic_store_explicit(&e->queue, q, memory_order_release);
        atomic_store_explicit(&e->key, handle, memory_order_release);
        t->n_keys += fresh;
}

/* Room for one more key, with at least half of the table free. */
static OpenclTable *table_with_room(void) {
        OpenclTable *old = atomic_load(&opencl_table);
        if (old->mask > 0 && (old->n_keys + 1) * 2 <= old->mask + 1)
                return old;

        size_t live = 0;
        for (size_t i = 0; i <= old->mask; i++)
                live += atomic_load(&old->entries[i].queue) != NULL;

        size_t size = TABLE_MIN;
        while (size < (live + 1) * 4)
                size *= 2;
        OpenclTable *t = calloc(1, sizeof(OpenclTable) + size * sizeof(OpenclTableEntry));
        if (!t)
                return NULL;
        t->mask = size - 1;
        t->older = old;
        for (size_t i = 0; i <= old->mask; i++) {
                OpenclQueue *q = atomic_load(&old->entries[i].queue);
                if (q)
                        table_put(t, atomic_load(&old->entries[i].key), q);
        }
        atomic_store_explicit(&opencl_table, t, memory_order_release);
        return t;
}

/* --- events in a queue's life --- */

static OpenclQueue *queue_new(cl_command_queue handle, cl_device_id device,
                cl_command_queue_properties properties, int32_t priority_hint) {
        OpenclDevice d;
        opencl_device_describe(device, &d);

        (void) pthread_mutex_lock(&registry_lock);
        OpenclQueue *q = queue_alloc();
        (void) pthread_mutex_unlock(&registry_lock);
        if (!q)
                return NULL;

        queue_reset(q);
        atomic_store(&q->life, 1);
        q->handle = handle;
        q->callbacks_prompt = d.is_cpu;
        q->priority_hint = priority_hint;
        atomic_store(&q->in_order, !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE));

        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = d.id,
                        .device_name = d.name,
                        .backend = "opencl",
                        .label = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE ? "out-of-order"
                                                                                     : "in-order",
                        .priority_hint = priority_hint,
                        .drain = opencl_drain,
                        .look = opencl_tail_look,
                        .userdata = q,
                        .native = (uint64_t) (uintptr_t) handle,
        };
        if (xsched_queue_new(&info, &q->xq) < 0) {
                q->xq = NULL;
                opencl_queue_unref(q);
                return NULL;
        }
        return q;
}

void opencl_queue_add(cl_command_queue handle, cl_device_id device, cl_command_queue_properties properties,
                int32_t priority_hint) {
        PROTECT_ERRNO;

        const char *off = getenv("XSCHED_DISABLE");
        if (off && streq(off, "1"))
                return;

        if (!late_load())
                return;
        (void) pthread_once(&once, with_first_queue);
        OpenclQueue *q = queue_new(handle, device, properties, priority_hint), *stale = NULL;
        if (!q)
                return;

        (void) pthread_mutex_lock(&registry_lock);
        OpenclTable *t = table_with_room();
        if (t) {
                stale = opencl_table_find(t, handle);
                table_put(t, handle, q);
        }
        (void) pthread_mutex_unlock(&registry_lock);

        if (!t)
                opencl_queue_unref(q);
        if (stale) {
                /* Released behind our back: the runtime would not have given us the handle otherwise. */
                atomic_fetch_or(&stale->pins, OPENCL_QUEUE_DROPPED);
                opencl_queue_unref(stale);
        }
}

void opencl_queue_retained(cl_command_queue handle) {
        OpenclQueue *q = opencl_queue_find(handle);
        if (q)
                atomic_fetch_add(&q->app_refs, 1);
}

bool opencl_queue_released(cl_command_queue handle) {
        PROTECT_ERRNO;
        OpenclQueue *q = opencl_queue_find(handle);
        if (!q || atomic_fetch_sub(&q->app_refs, 1) != 1)
                return false;

        (void) pthread_mutex_lock(&registry_lock);
        OpenclTableEntry *e = table_slot(atomic_load(&opencl_table), handle);
        bool ours = atomic_load(&e->queue) == q;
        if (ours)
                atomic_store_explicit(&e->queue, NULL, memory_order_release);
        (void) pthread_mutex_unlock(&registry_lock);
        if (!ours)
                return false;

        opencl_tail_end(q);
        bool pinned = atomic_fetch_or(&q->pins, OPENCL_QUEUE_DROPPED) != 0;
        opencl_harvest(q, 0);
        opencl_queue_unref(q);
        return pinned;
}

/* A thread of the application that is looking meanwhile goes on, and ends that by itself. */
static void queue_forget(OpenclQueue *q) {
        uint32_t n_done = 0, n_drains = 0, n_points = 0;

        (void) pthread_mutex_lock(&q->lock);
        for (size_t i = q->head; !q->harvesting && i < q->n; i++) {
                n_done += !q->tracked[i].drain && !q->tracked[i].point;
                n_drains += q->tracked[i].drain;
                n_points += q->tracked[i].point;
        }
        if (!q->harvesting) {
                q->head = q->n = 0;
                atomic_store(&q->n_tracked, 0);
                atomic_store(&q->flying_ns, 0);
        }
        (void) pthread_mutex_unlock(&q->lock);

        atomic_fetch_sub(&opencl_n_tracked, n_done + n_drains + n_points);
        for (uint32_t i = 0; i < n_drains; i++)
                xsched_queue_drained(q->xq);
        if (n_done > 0)
                xsched_queue_complete(q->xq, n_done, 0);
        opencl_bound_progress(q);
}

/* A reader may still be in one; and who looks for leaks then finds them here. */
static OpenclTable *forgotten_tables;

/* Under the lock. */
static void table_keep(OpenclTable *t) {
        OpenclTable *oldest = t;

        if (t == &table_empty.table)
                return;
        while (oldest->older && oldest->older != &table_empty.table)
                oldest = oldest->older;
        oldest->older = forgotten_tables;
        forgotten_tables = t;
}

void opencl_queue_forget_all(void) {
        (void) pthread_mutex_lock(&registry_lock);
        OpenclTable *t = atomic_exchange(&opencl_table, &table_empty.table);
        table_keep(t);
        (void) pthread_mutex_unlock(&registry_lock);

        for (size_t i = 0; i <= t->mask; i++) {
                OpenclQueue *q = atomic_load(&t->entries[i].queue);
                if (q)
                        queue_forget(q);
        }
}
