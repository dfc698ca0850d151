/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues: one slot of a client's page
 *
 * A Slot is the service's own record of what it has written into line 0 of the page's slot, and the truth: the client
 * can write the page, so nothing of that is read back. A word is written when it differs.
 */

#include "common/page.h"
#include "device.h"
#include "quick.h"
#include "service/settings/settings.h"

typedef enum QueueState {
        QUEUE_IDLE,
        QUEUE_RUNNING,
        QUEUE_HELD,
        QUEUE_SUSPENDED,
        _QUEUE_STATE_MAX,
} QueueState;

const char *queue_state_to_string(QueueState v);
int queue_state_from_string(const char *s);

/* It outlives its queue, because the generations of the word go on: the client's, by number. */
typedef struct Slot {
        Queue *queue;  /* NULL: it is free */
        uint32_t word; /* the verdict and its generation: PAGE_VERDICT_* */
        uint32_t threshold, budget_us, lead_us, watch, level;
} Slot;

struct Queue {
        Manager *manager;
        Client *client;
        Device *device;
        Entity *entity;
        uint64_t id;
        char *path;
        uint32_t slot;
        PageSlot *page_slot;
        char *backend, *label;
        int priority_hint;      /* 0 or below */
        PreemptLevel max_level; /* what its driver can do, as the client says */
        bool mes;               /* it is on a GPU that MES schedules */
        PageHooked hooked;      /* how its launches are seen, as the client says */
        unsigned n_hooked_changes;
        bool unheld;                       /* a hold does not stop it */
        bool privileged;                   /* while it is held, the service's own hold is wanted, too */
        uint32_t kfd_gpu_id, kfd_queue_id; /* of KFD, as the client says; no GPU: 0 */

        Settings override; /* Queue.Set */
        Settings lowering; /* Queue.Set by its owner: only lowers */
        Settings wish;     /* Hint */
        SettingsResolved resolved;
        int priority; /* of that, without a boost */
        bool own;     /* an entity of its own */
        bool suspended;

        bool ready;        /* outstanding was not 0 when last looked at under watch */
        bool stalled;      /* its process is stopped: does not count as ready */
        uint64_t progress; /* submitted + completed when last looked at for that */
        bool boosted;      /* another queue of the process waits for it */
        bool counted_active, counted_ready, counted_stopped; /* as its entity counts it */

        QuickQueue quick;
        uint64_t seen_ns;            /* when the slot was last looked at */
        uint64_t mark_ns, flight_ns; /* edges.h: of the last mark, and what the client had counted then */
        /* edges.h: since when it may launch, and has not been seen to (0: it has); what the policy had counted of it
         * then, and the client as in flight. */
        uint64_t given_ns, given_counted_ns, given_flight_ns;
        bool tail;               /* it was held, and has something in flight still: tail.h */
        uint64_t waits_since_ns; /* with work, while the word says hold; 0: it does not wait */
        uint64_t waited_ns;      /* what it had waited at least when that ended */
        uint64_t edge_ns; /* how old the last ready edge was when it was heard of, until it counts for a wait */
        uint64_t wait_edge_ns; /* of the edge that this wait began with; 0: it began otherwise */
        bool wait_counts;      /* for decision_note_run(): not, while it is suspended */
        uint64_t ordered_ns; /* when its driver was last told something that has not been heard of since; 0: nothing */
        uint64_t obeyed_ns; /* when it was first seen to have done that; 0: not yet */
        bool looked_for;    /* on the manager's list of those that are looked at for that */
        CostVote *vote;     /* its owner's, from its first order on */
        bool announced;     /* on the bus */

        /* tell.h */
        bool untold;
        Queue *untold_prev, *untold_next;

        Queue *entity_prev, *entity_next;
        Queue *ordered_prev, *ordered_next;
        UT_hash_handle hh;
};

typedef struct QueueParameters {
        const char *device, *device_name, *backend, *label;
        int priority_hint;
        uint32_t level;     /* PreemptLevel that a hold can reach; 0 is the gate */
        bool mes;           /* ladder_name_has_mes() */
        const char *hooked; /* page_hooked_to_string(); anything else is unknown */
        uint32_t kfd_gpu_id, kfd_queue_id;
} QueueParameters;

/* -EDQUOT: a quota; -ENOSPC: no slot is free; -EINVAL: the device's name. */
int queue_new(Client *c, const QueueParameters *p, Queue **ret);
Queue *queue_free(Queue *q);

/* The queue again, after a restart: in its old slot, which runs afterwards. */
typedef struct QueueKept {
        Settings override, lowering, wish;
        bool suspended;
} QueueKept;

int queue_adopt(Client *c, uint64_t id, uint32_t slot, const QueueParameters *p, const QueueKept *kept);

/* numbers.c */
Queue *queue_find(Manager *m, uint64_t id);

/* resolve.c: resolves its settings, and puts it into the entity that they ask for. */
int queue_settings_changed(Queue *q);

/* `boosted` changed: stacks that on what its settings came to. Cheap. */
void queue_boost_changed(Queue *q);

/* layers.c: the layers that decide, strongest first: its own override, then whatever its client has. */
size_t queue_layers(const Queue *q, SettingsLayer *layers); /* QUEUE_LAYERS_MAX of client.h */

/* What only ever lowers, onto what the layers came to: what lowers its client, the hint, the wish, the owner. */
void queue_lower(const Queue *q, SettingsResolved *r);

/* suspension.c */
void queue_set_suspended(Queue *q, bool suspended);

/* After its client or group was suspended or resumed. */
void queue_sync(Queue *q);

/* suspended.c: by itself, its client or its group. */
bool queue_is_suspended(const Queue *q);

QueueState queue_state(const Queue *q);

/* "no"; "edges": it tells them; "looks": it is quick. */
const char *queue_watched(const Queue *q);

/* hooked.c: how its launches are seen, as its slot says now. Cheap. */
PageHooked queue_look_hooked(Queue *q);

/* What can stop it may be another than before. */
void queue_review_unheld(Queue *q);

/* A hold does not stop it, or does: counted, and said in Degraded. */
void queue_count_unheld(Queue *q, bool unheld);

/* counters.c: after `ready` or the verdict changed. */
void queue_note_wait(Queue *q);

struct ClientCounters;
void queue_counters(const Queue *q, struct ClientCounters *ret);
