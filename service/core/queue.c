/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "arbiter.h"
#include "common/array.h"
#include "counters.h"
#include "hooked.h"
#include "ladder.h"
#include "numbers.h"
#include "observer.h"
#include "remnant.h"
#include "resolve.h"
#include "service/settings/xsched-conf.h"
#include "suspended.h"
#include "user.h"
#include "walk.h"

static const char *const queue_state_table[_QUEUE_STATE_MAX] = {
                [QUEUE_IDLE] = "idle",
                [QUEUE_RUNNING] = "running",
                [QUEUE_HELD] = "held",
                [QUEUE_SUSPENDED] = "suspended",
};
DEFINE_STRING_TABLE_TO_STRING(queue_state, QueueState);

const char *queue_watched(const Queue *q) {
        if (queue_slot(q)->watch == 0)
                return "no";
        return q->quick.is && queue_slot(q)->watch != PAGE_WATCH_ALL ? "looks" : "edges";
}

QueueState queue_state(const Queue *q) {
        if (queue_is_suspended(q))
                return QUEUE_SUSPENDED;
        if (atomic_load_explicit(&q->page_slot->outstanding, memory_order_relaxed) == 0)
                return QUEUE_IDLE;
        return queue_holds(q) ? QUEUE_HELD : QUEUE_RUNNING;
}

static int client_grow_slots(Client *c, uint32_t n) {
        size_t room = c->n_slots;

        if (n <= c->n_slots)
                return 0;
        Slot *slots = array_reserve(c->slots, &room, n, sizeof(*slots));
        if (!slots)
                return -ENOMEM;
        c->slots = slots;
        n = MIN((uint32_t) room, c->page.n_slots);
        memset(slots + c->n_slots, 0, (n - c->n_slots) * sizeof(*slots));
        c->n_slots = n;
        return 0;
}

/* A freed slot is used again as late as possible, so that a late edge of its former queue finds no queue. */
static int client_find_slot(Client *c, uint32_t *ret) {
        uint32_t total = c->page.n_slots;

        if (c->n_queues < c->n_slots && c->next_slot >= c->n_slots)
                c->next_slot = 0;
        for (uint32_t i = 0; i < c->n_slots; i++) {
                uint32_t slot = (c->next_slot + i) % c->n_slots;
                if (c->slots[slot].queue)
                        continue;
                c->next_slot = slot + 1;
                *ret = slot;
                return 0;
        }
        if (c->n_slots >= total)
                return -ENOSPC;
        uint32_t slot = c->n_slots;
        int r = client_grow_slots(c, slot + 1);
        if (r < 0)
                return r;
        c->next_slot = slot + 1;
        *ret = slot;
        return 0;
}

/* Line 0 of a slot as a queue finds it: run, unbounded, unwatched. */
static void slot_init(Queue *q) {
        q->page_slot->queue_id = q->id;
        atomic_store_explicit(&q->page_slot->threshold, 0, memory_order_relaxed);
        atomic_store_explicit(&q->page_slot->budget_us, 0, memory_order_relaxed);
        atomic_store_explicit(&q->page_slot->lead_us, 0, memory_order_relaxed);
        atomic_store_explicit(&q->page_slot->level, LEVEL_GATE, memory_order_relaxed);
        (void) page_slot_set_watch(q->page_slot, 0);
        *queue_slot(q) = (Slot){.queue = q, .word = queue_slot(q)->word, .level = LEVEL_GATE};
}

/* The client does not use the slot before it is told its number, so the service may clear the client's line, this
 * once. */
static void slot_clear(PageSlot *s) {
        atomic_store_explicit(&s->outstanding, 0, memory_order_relaxed);
        atomic_store_explicit(&s->boost, 0, memory_order_relaxed);
        atomic_store_explicit(&s->submitted, 0, memory_order_relaxed);
        atomic_store_explicit(&s->completed, 0, memory_order_relaxed);
        atomic_store_explicit(&s->held_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->busy_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->ready_since_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->mean_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->flying_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->flying_since_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->lease_expiries, 0, memory_order_relaxed);
        atomic_store_explicit(&s->applied, 0, memory_order_relaxed);
        atomic_store_explicit(&s->launched_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->drained_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&s->hooked, HOOKED_UNKNOWN, memory_order_relaxed);
}

/* Frees the queue. It may be incomplete, when queue_new() has failed. */
Queue *queue_free(Queue *q) {
        if (!q)
                return NULL;

        Client *c = q->client;
        Manager *m = q->manager;
        q->wait_counts = false; /* ends of waits from here on come from the end of the queue */
        bool remains = q->hh.tbl && remnant_begin(q);
        observers_queue_removed(q);
        if (q->stalled)
                q->device->n_stalled--;
        if (q->entity)
                entity_take_queue(NULL, q);
        if (q->hh.tbl) {
                ClientCounters past;
                queue_counters(q, &past);
                client_counters_add(&c->past, &past);
                m->n_lease_expired += past.lease_expired;
                arbiter_release_queue(q);
                walks_forget(m, WALK_QUEUES, q);
                HASH_DEL(m->queues, q);
                c->slots[q->slot].queue = NULL;
                c->n_queues--;
                observers_queue_gone(
                                q); /* observers may write the client's whole record, and look for edges meanwhile */
                queue_count_unheld(q, false);
                q->device->n_hooked[q->hooked]--;
                q->device->n_queues--;
                q->device->used_at = now_ns();
                m->devices_left |= q->device->n_queues == 0;
                if (!remains)
                        user_give(m, c->user->uid, USER_QUEUES);
        }
        ladder_queue_gone(q);
        free(q->backend);
        free(q->label);
        free(q);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Queue *, queue_free);

static PageHooked hooked_from(const char *s) {
        int v = s ? page_hooked_from_string(s) : HOOKED_UNKNOWN;

        return v < 0 ? HOOKED_UNKNOWN : (PageHooked) v;
}

/* Makes the object for a slot that the client has already. */
static int queue_make(
                Client *c, uint64_t id, uint32_t slot, const QueueParameters *p, unsigned max_devices, Queue **ret) {
        _cleanup_(queue_freep)
        Queue *q = NULL;
        Manager *m = c->manager;
        Device *d;
        const DeviceOwner owner = {c->user->uid, max_devices};

        int r = device_get(m, p->device, p->device_name, p->backend, owner, &d);
        if (r < 0)
                return r;
        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        *q = (Queue){
                        .manager = m,
                        .client = c,
                        .device = d,
                        .id = id,
                        .slot = slot,
                        .page_slot = page_slot(&c->page, slot),
                        .backend = strdup(strempty(p->backend)),
                        .label = strdup(strempty(p->label)),
                        .priority_hint = MIN(p->priority_hint, 0),
                        .max_level = CLAMP(p->level, (uint32_t) LEVEL_GATE, (uint32_t) LEVEL_INTERRUPT),
                        .mes = p->mes,
                        .hooked = hooked_from(p->hooked),
                        .kfd_gpu_id = p->kfd_gpu_id,
                        .kfd_queue_id = p->kfd_queue_id,
        };
        if (!q->backend || !q->label)
                return -ENOMEM;
        *ret = TAKE_PTR(q);
        return 0;
}

/* From here on the queue is in the manager's tables. */
static int queue_link(Queue *q, unsigned limit) {
        Client *c = q->client;
        Manager *m = q->manager;

        int r = user_take(m, c->user->uid, USER_QUEUES, limit);
        if (r < 0)
                return r;
        c->n_queues++;
        q->device->n_queues++;
        q->device->n_hooked[q->hooked]++;
        HASH_ADD(hh, m->queues, id, sizeof(q->id), q);
        slot_init(q);
        r = queue_settings_changed(q);
        if (r < 0)
                return r;

        turn_look(m);
        observers_queue_added(q);
        return 0;
}

int queue_new(Client *c, const QueueParameters *p, Queue **ret) {
        _cleanup_(queue_freep)
        Queue *q = NULL;
        uint32_t slot;

        if (c->n_queues >= c->manager->config->limits.queues_per_client)
                return -EDQUOT;
        int r = client_find_slot(c, &slot);
        if (r < 0)
                return r;
        manager_reserve_ids(c->manager);
        r = queue_make(c, c->manager->next_queue_id, slot, p, c->manager->config->limits.devices_per_user, &q);
        if (r < 0)
                return r;
        slot_clear(q->page_slot);
        r = queue_link(q, c->manager->config->limits.queues_per_user);
        if (r < 0)
                return r;
        c->manager->next_queue_id++;
        *ret = TAKE_PTR(q);
        return 0;
}

int queue_adopt(Client *c, uint64_t id, uint32_t slot, const QueueParameters *p, const QueueKept *kept) {
        _cleanup_(queue_freep)
        Queue *q = NULL;

        if (slot >= c->page.n_slots || queue_find(c->manager, id))
                return -EINVAL;
        int r = client_grow_slots(c, slot + 1);
        if (r < 0)
                return r;
        if (c->slots[slot].queue)
                return -EINVAL;
        r = queue_make(c, id, slot, p, UINT_MAX, &q);
        if (r < 0)
                return r;
        q->override = kept->override;
        q->lowering = kept->lowering;
        q->wish = kept->wish;
        q->suspended = kept->suspended;
        c->slots[slot].word = page_slot_adopt(q->page_slot);
        r = queue_link(q, UINT_MAX); /* no limit: what the client had before the restart, it keeps */
        if (r < 0)
                return r;
        q->manager->next_queue_id = MAX(q->manager->next_queue_id, id + 1);
        (void) queue_look_hooked(q);
        ladder_after_order(q); /* the former service may have had it stopped */
        TAKE_PTR(q);
        return 0;
}
