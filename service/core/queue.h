/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queue: one slot of a client's page
 *
 * A Slot is the service's own record of what it has written into line 0 of the page's slot. The service never reads
 * that line back, because the client can write the page. A word is written only when it differs from the record.
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

/* Owned by the client, by slot number. It outlives its queue, because the word's generations go on. */
typedef struct Slot {
        Queue *queue;  /* NULL: the slot is free */
        uint32_t word; /* the verdict and its generation: PAGE_VERDICT_* */
        uint32_t threshold, budget_us, lead_us, watch, level;
} Slot;

/* What each edge reads comes first, and is in few lines of a cache. */
struct Queue {
        Manager *manager;
        Client *client;
        Device *device;
        Entity *entity;
        PageSlot *page_slot;
        uint32_t slot;
        PageHooked hooked; /* how its launches are seen, as the client says */
        bool own;          /* an entity of its own */
        bool suspended;
        bool ready;                                          /* `outstanding` was not 0 at the last look under watch */
        bool stalled;                                        /* its process is stopped: it does not count as ready */
        bool boosted;                                        /* another queue of the process waits for it */
        bool counted_active, counted_ready, counted_stopped; /* as its entity counts it */
        bool tail;                                           /* it is held with launches still in flight: tail.h */
        bool privileged;             /* while held, it needs the service's privileged hold, too */
        bool sits_out;               /* another process of its group has the turn: rota.h */
        bool flies;                  /* held, and its process had launches on the device when the hold began */
        uint64_t expected_ns;        /* the last PageSlot.expected_ns: forecast_heard() */
        uint64_t seen_ns;            /* when the slot was last looked at */
        uint64_t mark_ns, flight_ns; /* edges.h: time of the last mark, and the client's count of time in flight then */
        /* edges.h: when its verdict became run (0: it was seen to launch since), the run time that the policy had
         * counted by then, and the time in flight that the client had counted. */
        uint64_t given_ns, given_counted_ns, given_flight_ns;
        uint64_t given_wakes;    /* Entity.n_wakes then; UINT64_MAX: another queue of the entity was ready, too */
        uint64_t ordered_ns;     /* when its driver got an order whose outcome is not read yet; 0: none */
        uint64_t waits_since_ns; /* since when it has work under a hold verdict; 0: it does not wait */
        QuickQueue quick;

        uint64_t id;
        char *backend, *label;
        int priority_hint;      /* 0 or below */
        PreemptLevel max_level; /* highest level that its driver can do, as the client says */
        bool mes;               /* it is on a GPU that MES schedules */
        unsigned n_hooked_changes;
        bool unheld;                       /* a hold cannot stop it */
        uint32_t kfd_gpu_id, kfd_queue_id; /* KFD's ids, as the client says; gpu_id 0: none */

        Settings override; /* Queue.Set */
        Settings lowering; /* Queue.Set by its owner: only lowers */
        Settings wish;     /* Hint */
        SettingsResolved resolved;
        int priority; /* of `resolved`, without a boost */

        uint64_t progress; /* submitted + completed at the last look for stopped processes */

        uint64_t tail_at;      /* since when */
        uint64_t done;         /* launches completed at the last look beside a tail: overlaps.h */
        uint64_t waited_ns;    /* held_ns when that wait ended: a lower bound for the page's counter */
        uint64_t edge_at_ns;   /* the client's stamp of the last ready edge, until a wait uses it; 0: none */
        uint64_t wait_edge_ns; /* the stamp of the edge that began this wait; without one, as waits_since_ns */
        bool wait_counts;      /* decision_note_run() counts this wait; false while suspended */
        uint64_t obeyed_ns;    /* when its driver was first seen to have obeyed; 0: not yet */
        bool looked_for;       /* on Manager.ordered */
        CostVote *vote;        /* its owner's; NULL before its first order */
        bool announced;        /* on the bus */

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
        uint32_t level;     /* PreemptLevel that a hold can reach; 0: only the gate */
        bool mes;           /* ladder_name_has_mes() */
        const char *hooked; /* page_hooked_to_string(); anything else is unknown */
        uint32_t kfd_gpu_id, kfd_queue_id;
} QueueParameters;

/* -EDQUOT: a quota is used up; -ENOSPC: no free slot; -EINVAL: the device's id is invalid. */
int queue_new(Client *c, const QueueParameters *p, Queue **ret);
Queue *queue_free(Queue *q);

/* Makes the queue again after a restart, in its old slot; the slot's verdict is then run. */
typedef struct QueueKept {
        Settings override, lowering, wish;
        bool suspended;
} QueueKept;

int queue_adopt(Client *c, uint64_t id, uint32_t slot, const QueueParameters *p, const QueueKept *kept);

QueueState queue_state(const Queue *q);

/* "no", "edges" (it tells its edges) or "looks" (it is quick: quick.h). */
const char *queue_watched(const Queue *q);
