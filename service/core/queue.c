/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "arbiter.h"
#include "decision.h"
#include "ladder.h"
#include "observer.h"
#include "service/settings/config.h"
#include "tail.h"
#include "user.h"
#include "walk.h"

static const char *const queue_state_table[_QUEUE_STATE_MAX] = {
                [QUEUE_IDLE] = "idle",
                [QUEUE_RUNNING] = "running",
                [QUEUE_HELD] = "held",
                [QUEUE_SUSPENDED] = "suspended",
};
DEFINE_STRING_TABLE_LOOKUP(queue_state, QueueState);

Queue *queue_find(Manager *m, uint64_t id) {
        Queue *q;

        HASH_FIND(hh, m->queues, &id, sizeof(id), q);
        return q;
}

bool queue_is_suspended(const Queue *q) {
        return q->suspended || q->client->suspended || client_suspended_by(q->client);
}

const char *queue_watched(const Queue *q) {
        if (q->written.watch == 0)
                return "no";
        return q->quick.is && q->written.watch != PAGE_WATCH_ALL ? "looks" : "edges";
}

/* --- how its launches are seen --- */

/* From "create" it comes to be one of the others, and perhaps yet another. Who says more often that it has changed is
 * not believed, for everybody hears of it. */
#define HOOKED_CHANGES_MAX 8U

#define UNHELD_KEY "unheld queues"
#define UNHELD_TEXT                                                                                         \
        "launches of some go past the gate, and nothing else stops them: xschedctl list-queues says which (HOOKED)"

/* Said once for all of them: who makes many says no more. And who makes and ends them in a loop says it as often as he
 * may write to the journal. */
static void queue_count_unheld(Queue *q, bool unheld) {
        Manager *m = q->manager;

        if (unheld == q->unheld)
                return;
        q->unheld = unheld;
        if (unheld) {
                q->device->n_unheld++;
                m->n_unheld++;
                if (!m->unheld_is_said && user_may_log(m, q->client->peer.uid)) {
                        m->unheld_is_said = true;
                        (void) manager_set_degraded(m, UNHELD_KEY, UNHELD_TEXT);
                }
        } else {
                q->device->n_unheld--;
                if (--m->n_unheld == 0 && m->unheld_is_said) {
                        m->unheld_is_said = false;
                        (void) manager_set_degraded(m, UNHELD_KEY, NULL);
                }
        }
}

void queue_review_unheld(Queue *q) {
        queue_count_unheld(q, page_hooked_is_past_gate(q->hooked) && q->entity && !ladder_can_stop(q));
}

static void queue_set_hooked(Queue *q, PageHooked hooked) {
        q->device->n_hooked[q->hooked]--;
        q->device->n_hooked[hooked]++;
        q->hooked = hooked;
        queue_review_unheld(q);
}

PageHooked queue_look_hooked(Queue *q) {
        uint32_t v = atomic_load_explicit(&q->page_slot->hooked, memory_order_relaxed);

        if (likely(v == q->hooked) || v == HOOKED_UNKNOWN || v >= _HOOKED_MAX ||
                        q->n_hooked_changes >= HOOKED_CHANGES_MAX)
                return q->hooked;
        q->n_hooked_changes++;
        queue_set_hooked(q, (PageHooked) v);
        return q->hooked;
}

QueueState queue_state(const Queue *q) {
        if (queue_is_suspended(q))
                return QUEUE_SUSPENDED;
        if (atomic_load_explicit(&q->page_slot->outstanding, memory_order_relaxed) == 0)
                return QUEUE_IDLE;
        return q->holds ? QUEUE_HELD : QUEUE_RUNNING;
}

void queue_counters(const Queue *q, ClientCounters *ret) {
        const PageSlot *s = q->page_slot;
        uint64_t waiting = q->waits_since_ns > 0 ? ns_sub(now_ns(), q->waits_since_ns) : 0;
        /* What the client counts when the wait is over. */
        uint64_t held_ns = atomic_load_explicit(&s->held_ns, memory_order_relaxed);

        *ret = (ClientCounters){
                        .submitted = atomic_load_explicit(&s->submitted, memory_order_relaxed),
                        .completed = atomic_load_explicit(&s->completed, memory_order_relaxed),
                        .held_ns = MAX(held_ns, q->waited_ns) + waiting,
                        .lease_expired = atomic_load_explicit(&s->lease_expiries, memory_order_relaxed),
        };
}

void queue_note_wait(Queue *q) {
        bool waits = q->holds && q->ready;
        uint64_t edge_ns = TAKE_GENERIC(q->edge_ns, 0);
        ClientCounters n;

        if (waits == (q->waits_since_ns > 0))
                return;
        if (!waits) {
                queue_counters(q, &n);
                q->waited_ns = n.held_ns;
                if (q->ready && q->wait_counts)
                        decision_note_run(q, ns_sub(now_ns(), q->waits_since_ns) + q->wait_edge_ns);
        } else {
                q->wait_edge_ns = edge_ns;
                q->wait_counts = !queue_is_suspended(q);
        }
        q->waits_since_ns = waits ? now_ns() : 0;
}

void queue_lower(const Queue *q, SettingsResolved *r) {
        (void) client_lower(q->client, r);
        if (q->priority_hint < 0 && !settings_has(&q->override, SETTINGS_PRIORITY)) {
                int lowered = MAX(r->policy.priority + q->priority_hint, POLICY_PRIORITY_MIN);
                Settings hint = SETTINGS_NULL;
                (void) settings_set_priority(&hint, lowered);
                (void) settings_lower(r, &hint, NULL, NULL);
        }
        (void) settings_lower(r, &q->wish, manager_lookup_class, q->manager);
        (void) settings_lower_by(r, &q->lowering, SETTINGS_FROM_OWNER, manager_lookup_class, q->manager);
}

size_t queue_layers(const Queue *q, SettingsLayer *layers) {
        layers[0] = (SettingsLayer){SETTINGS_FROM_OVERRIDE, NULL, &q->override};
        return 1 + client_layers(q->client, layers + 1);
}

static void queue_resolve(Queue *q) {
        SettingsLayer layers[QUEUE_LAYERS_MAX];
        Client *c = q->client;

        size_t n = queue_layers(q, layers);
        settings_resolve(layers, n, manager_lookup_class, q->manager, &q->resolved);
        queue_lower(q, &q->resolved);

        q->own = !settings_is_empty(&q->override) ||
                        !settings_policy_equal(&q->resolved.policy, &c->resolved.policy);
        if (q->own && q->boosted)
                q->resolved.policy.priority = MAX(q->resolved.policy.priority, c->resolved.policy.priority);
}

/* The entity that the queue's settings ask for, made when it is not there yet. */
static int queue_pick_entity(Queue *q, Entity **ret) {
        Client *c = q->client;
        bool by_process = policy_is_by_process(q->device->ops), own = c->own || by_process;
        Entity *e;

        if (q->own && !by_process) {
                if (q->entity && q->entity->kind == ENTITY_QUEUE) {
                        *ret = q->entity;
                        return 0;
                }
                return entity_new(q->device, ENTITY_QUEUE, c->group, c, &q->resolved.policy, ret);
        }

        EntityKind kind = own ? ENTITY_CLIENT : ENTITY_GROUP;
        Client *owner = own ? c : NULL;
        if (q->entity && q->entity->kind == kind) {
                *ret = q->entity;
                return 0;
        }
        e = entity_find(q->device, kind, c->group, owner);
        if (e) {
                *ret = e;
                return 0;
        }
        return entity_new(q->device, kind, c->group, owner,
                        own ? &c->resolved.policy : &c->group->resolved.policy, ret);
}

/* Said only when it is so: a change of a group comes by at each of its queues. */
static void queue_compare_settings(Queue *q, const SettingsResolved *former) {
        if (!settings_policy_equal(&former->policy, &q->resolved.policy) ||
                        former->source != q->resolved.source)
                observers_queue_changed(q, QUEUE_SETTINGS);
}

int queue_settings_changed(Queue *q) {
        const SettingsResolved former = q->resolved;
        Entity *e;

        queue_resolve(q);
        queue_compare_settings(q, &former);
        int r = queue_pick_entity(q, &e);
        if (r < 0)
                return r; /* it stays where it is */

        entity_take_queue(e, q);
        if (e->kind == ENTITY_QUEUE)
                entity_configure(e, &q->resolved.policy);
        else if (e->kind == ENTITY_CLIENT)
                entity_configure(e, &q->client->resolved.policy);
        queue_review_unheld(q);
        arbiter_sync_queue(q);
        return 0;
}

void queue_sync(Queue *q) {
        entity_update_queue(q);
        arbiter_sync_queue(q);
}

void queue_set_suspended(Queue *q, bool suspended) {
        if (q->suspended == suspended)
                return;
        q->suspended = suspended;
        queue_sync(q);
        observers_queue_changed(q, QUEUE_SUSPENSION);
}

static int client_grow_slots(Client *c, uint32_t n) {
        if (n <= c->n_slots)
                return 0;
        uint32_t roomy = MAX(c->n_slots * 2, 16U);
        n = MAX(n, roomy);
        n = MIN(n, c->page.n_slots);

        Queue **slots = realloc(c->slots, n * sizeof(void *));
        if (!slots)
                return -ENOMEM;
        c->slots = slots;
        uint32_t *words = realloc(c->words, n * sizeof(*words));
        if (!words)
                return -ENOMEM;
        c->words = words;

        memset(slots + c->n_slots, 0, (n - c->n_slots) * sizeof(void *));
        memset(words + c->n_slots, 0, (n - c->n_slots) * sizeof(*words));
        c->n_slots = n;
        return 0;
}

/* Freed slots are used again as late as possible: a late edge of the old queue then finds nobody. */
static int client_find_slot(Client *c, uint32_t *ret) {
        uint32_t total = c->page.n_slots;

        if (c->n_queues < c->n_slots && c->next_slot >= c->n_slots)
                c->next_slot = 0;
        for (uint32_t i = 0; i < c->n_slots; i++) {
                uint32_t slot = (c->next_slot + i) % c->n_slots;
                if (c->slots[slot])
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
        q->written.level = LEVEL_GATE;
}

/* Nobody in the client uses the slot before it knows its number, so its line is ours to clear, this once. */
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

/* Undoes as much as has been done. */
Queue *queue_free(Queue *q) {
        if (!q)
                return NULL;

        Client *c = q->client;
        Manager *m = q->manager;
        q->wait_counts = false; /* what ends now ends by this */
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
                c->slots[q->slot] = NULL;
                c->n_queues--;
                observers_queue_gone(
                                q); /* may write down all that the client still has, and hear edges meanwhile */
                queue_count_unheld(q, false);
                q->device->n_hooked[q->hooked]--;
                q->device->n_queues--;
                q->device->used_at = now_ns();
                m->devices_left |= q->device->n_queues == 0;
                if (!remains)
                        user_give(m, c->user->uid, USER_QUEUES);
        }
        ladder_queue_gone(q);
        free(q->path);
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

/* The object around a slot that is the client's already. */
static int queue_make(Client *c, uint64_t id, uint32_t slot, const QueueParameters *p, unsigned max_devices,
                Queue **ret) {
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
        if (!q->backend || !q->label || asprintf(&q->path, BUS_PATH "/queue/%" PRIu64, id) < 0)
                return -ENOMEM;
        *ret = TAKE_PTR(q);
        return 0;
}

/* From here on everybody sees it. */
static int queue_link(Queue *q, unsigned limit) {
        Client *c = q->client;
        Manager *m = q->manager;

        int r = user_take(m, c->user->uid, USER_QUEUES, limit);
        if (r < 0)
                return r;
        c->slots[q->slot] = q;
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
        r = queue_make(c, c->manager->next_queue_id, slot, p, c->manager->config->limits.devices_per_user,
                        &q);
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
        if (c->slots[slot])
                return -EINVAL;
        r = queue_make(c, id, slot, p, UINT_MAX, &q);
        if (r < 0)
                return r;
        q->override = kept->override;
        q->lowering = kept->lowering;
        q->wish = kept->wish;
        q->suspended = kept->suspended;
        c->words[slot] = page_slot_adopt(q->page_slot);
        r = queue_link(q, UINT_MAX); /* what it had, it keeps */
        if (r < 0)
                return r;
        q->manager->next_queue_id = MAX(q->manager->next_queue_id, id + 1);
        (void) queue_look_hooked(q);
        ladder_after_order(q, true); /* the former service may have had it stopped */
        TAKE_PTR(q);
        return 0;
}
