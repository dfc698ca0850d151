/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The records of command queues, and the registry
 *
 * Lookups read an open-addressing table without a lock; changes are made under one mutex. A table that is full is
 * replaced by a larger one and never freed (a reader may still be in it): all old ones together are smaller than the
 * newest. Keys stay in a table when their queue goes, which costs little, since runtimes hand out the same addresses
 * again.
 */

#include <stdlib.h>

#include "common/macro.h"
#include "shim/opencl/opencl-delay.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-queue.h"
#include "shim/opencl/opencl-time.h"

#define TABLE_MIN   64U
#define SLAB_QUEUES 16U

/* The empty table: before the first queue, in a child after fork, and without memory. */
static union {
        OpenclTable table;
        char room[sizeof(OpenclTable) + sizeof(OpenclTableEntry)];
} table_empty;

_Atomic(OpenclTable *) opencl_table = &table_empty.table;
_Atomic uint32_t opencl_n_busy;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static OpenclQueue *free_queues;

OpenclQueue *opencl_queue_find(cl_command_queue handle) {
        return opencl_table_find(atomic_load_explicit(&opencl_table, memory_order_acquire), handle);
}

/* --- records --- */

/* Under the lock. */
static OpenclQueue *take_free(void) {
        if (!free_queues) {
                OpenclQueue *slab = aligned_alloc(64, SLAB_QUEUES * DIV_ROUND_UP(sizeof(OpenclQueue), 64) * 64);
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

static void reset_tail(OpenclQueue *q) {
        atomic_store(&q->tail, false);
        atomic_store(&q->since_point, 0);
        atomic_store(&q->app_waits, 0);
        atomic_store(&q->event_waits, 0);
        atomic_store(&q->plan_every, 0);
        q->open_seq = q->covered_seq = 0;
        q->arm = false;
        q->n_told = q->n_trusted = 0;
        q->untold_ns = 0;
        q->told_seq = q->last_seq;
        q->paused_ns = 0;
        q->newest_ns = 0;
}

/* Resets all members but the lock and `life`, which readers with an old pointer may still read. */
static void queue_reset(OpenclQueue *q) {
        q->xq = NULL;
        q->handle = NULL;
        q->head = q->n = 0;
        q->last_seq = q->done_seq = q->unsafe_seq = q->known_seq = 0;
        q->harvesting = q->again = q->waited = q->forgotten = false;
        q->measured_since_ns = q->started_ns = q->looked_ns = 0;
        atomic_store(&q->head_since_ns, 0);
        q->n_above = q->n_held = 0;
        atomic_store(&q->was_held, false);
        opencl_delay_reset(q);
        atomic_store(&q->flying_ns, 0);
        opencl_time_reset(q);
        q->stamps = q->stamped = false;
        atomic_store(&q->n_stamp_refusals, 0);
        atomic_store(&q->sampled_ns, 0);
        atomic_store(&q->waits_unknown, false);
        atomic_store(&q->n_tracked, 0);
        atomic_store(&q->multi_threaded, false);
        atomic_store(&q->submits, NULL);
        atomic_store(&q->bound_waiters, 0);
        atomic_store(&q->grace, 0);
        atomic_store(&q->doubt, 0);
        atomic_store(&q->pins, 0);
        atomic_store(&q->app_refs, 1);
        q->idle = q->wake = NULL;
        q->polled_seq = 0;
        atomic_store(&q->n_drains, 0);
        reset_tail(q);
}

OpenclQueue *opencl_queue_take(void) {
        (void) pthread_mutex_lock(&registry_lock);
        OpenclQueue *q = take_free();
        (void) pthread_mutex_unlock(&registry_lock);
        if (!q)
                return NULL;
        queue_reset(q);
        atomic_store(&q->life, 1);
        return q;
}

void opencl_queue_ref(OpenclQueue *q) {
        atomic_fetch_add(&q->life, 1);
}

void opencl_queue_unref(OpenclQueue *q) {
        if (atomic_fetch_sub(&q->life, 1) != 1)
                return;

        /* Launches are left only where the runtime refused a callback or a marker. */
        uint32_t n_launches = 0, n_drains = 0;
        bool calls = opencl_own_begin();
        for (size_t i = q->head; i < q->n; i++) {
                if (q->tracked[i].event && calls)
                        (void) opencl_next.clReleaseEvent(q->tracked[i].event);
                n_launches += !q->tracked[i].point && !q->tracked[i].drain;
                n_drains += q->tracked[i].drain;
        }
        if (calls)
                opencl_own_end();
        if (q->n > q->head)
                atomic_fetch_sub(&opencl_n_busy, 1);
        if (n_launches > 0)
                xsched_queue_complete(q->xq, n_launches, 0);
        for (uint32_t i = 0; i < n_drains; i++)
                xsched_queue_drained(q->xq);
        xsched_queue_unref(TAKE_PTR(q->xq));

        free(TAKE_PTR(q->tracked));
        q->allocated = 0;
        queue_reset(q);
        (void) pthread_mutex_lock(&registry_lock);
        q->next_free = free_queues;
        free_queues = q;
        (void) pthread_mutex_unlock(&registry_lock);
}

/* Fails on an unused record. A caller that comes too late may get a reference on another queue that uses the record by
 * now. */
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

/* A pin takes a reference, too, so the record outlives its pins. */
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

bool opencl_table_add(cl_command_queue handle, OpenclQueue *q, OpenclQueue **ret_stale) {
        (void) pthread_mutex_lock(&registry_lock);
        OpenclTable *t = table_with_room();
        if (t) {
                *ret_stale = opencl_table_find(t, handle);
                table_put(t, handle, q);
        }
        (void) pthread_mutex_unlock(&registry_lock);
        return t;
}

bool opencl_table_remove(cl_command_queue handle, OpenclQueue *q) {
        (void) pthread_mutex_lock(&registry_lock);
        OpenclTableEntry *e = table_slot(atomic_load(&opencl_table), handle);
        bool found = atomic_load(&e->queue) == q;
        if (found)
                atomic_store_explicit(&e->queue, NULL, memory_order_release);
        (void) pthread_mutex_unlock(&registry_lock);
        return found;
}

/* Readers may still use an old table; and a leak detector finds them here. */
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

OpenclTable *opencl_table_forget(void) {
        (void) pthread_mutex_lock(&registry_lock);
        OpenclTable *t = atomic_exchange(&opencl_table, &table_empty.table);
        table_keep(t);
        (void) pthread_mutex_unlock(&registry_lock);
        return t;
}

void opencl_table_fork_child(void) {
        atomic_store(&opencl_table, &table_empty.table);
        atomic_store(&opencl_n_busy, 0);
        registry_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        free_queues = NULL;
}
