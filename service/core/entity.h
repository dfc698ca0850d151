/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Entity: a group, client or queue that gets one verdict on one device
 *
 * An entity is a group on a device, or a client or queue with an override of its own. It is made with its first queue,
 * and freed after its last one, when no launches of them are in flight (tail.h). Suspended queues do not count: an
 * entity with no others is taken out of the policy, so that no entity waits for it, and its queues are held.
 *
 * Invariants, restored by entity_update() after every change of a queue:
 *   n_queues >= n_active >= n_ready; policy != NULL iff n_active > 0 or it has tails (tail.h),
 *   unless memory ran out: then its queues run;
 *   the policy was told ready iff n_ready > 0.
 */

#include "device.h"
#include "estimate.h"
#include "forecast.h"
#include "overlap.h"
#include "policy/policy.h"
#include "rota.h"

typedef enum EntityKind {
        ENTITY_GROUP,
        ENTITY_CLIENT,
        ENTITY_QUEUE,
        _ENTITY_KIND_MAX,
} EntityKind;

/* See gang.h. */
typedef enum GangVerdict {
        GANG_NONE, /* its own grant counts */
        GANG_RUN,
        GANG_HOLD,
        GANG_DRAIN, /* held, but for one launch at a time, for which launches in flight of other members may wait */
} GangVerdict;

/* What each edge reads comes first, and is in few lines of a cache. */
struct Entity {
        Device *device;
        EntityKind kind;
        unsigned n_queues, n_active, n_ready;
        unsigned n_stopped; /* queues with work whose processes are stopped or frozen */
        PolicyEntity *policy;
        Queue *queues; /* list, by entity_prev/entity_next */
        bool counted;  /* in Device.n_active, while its own n_active > 0 */
        bool limited;  /* a Max= counts for it; counted in Device.n_limited */
        bool told_ready;
        bool changed;        /* on Device.changed */
        bool yields;         /* held, because an entity of higher priority is due: forecast.h */
        bool tail_awaited;   /* the policy is to be told when n_tails becomes 0 */
        bool overlaps;       /* on Device.overlaps */
        PolicyGrant grant;   /* the policy's last grant */
        uint64_t n_wakes;    /* how often one of its queues became ready */
        Verdict carried_out; /* of the grant that was in force before this turn */
        GangVerdict gang;
        Preemption preemption; /* in force: its own setting, and the device's */
        unsigned n_tails;      /* of its queues, and its remnants */
        uint64_t held_since;   /* 0: it is not held */
        uint64_t ready_at;     /* when it became ready */
        uint64_t ended_at;     /* when a queue of it last became idle */
        Entity *changed_next;
        Group *group; /* never NULL */

        Client *client; /* ENTITY_CLIENT and ENTITY_QUEUE; NULL: freed, with launches still in flight */

        PolicySettings settings;
        Share *share;             /* with `policy` */
        uint64_t gang_since;      /* GANG_DRAIN is a part of GANG_HOLD here */
        uint64_t gang_stuck_at;   /* from then on launches in flight are taken for waiting ones */
        uint64_t gang_look_at;    /* when to look at that again; NSEC_INFINITY: not */
        uint64_t gang_owed_until; /* it is the lead, and runs until then although it is outranked */
        uint64_t gang_turn_at;    /* when that begins or ends; NSEC_INFINITY: not */
        PreemptionChoice choice;  /* while it is held: how far the hold reaches */
        bool looks_at_flights;    /* the review only looks for launches in flight */
        bool gate_only;           /* there is nothing to choose: its hold reaches no further than the gate */
        uint64_t review_at;       /* when to choose again */
        bool reviewed;            /* on Device.reviewed: one of its times is due some day */
        Entity *reviewed_prev, *reviewed_next;
        Rota rota;
        Forecast forecast;

        /* tail.h */
        struct Remnant *remnants; /* list */
        uint64_t tail_look_at;    /* NSEC_INFINITY: not */
        uint64_t tail_look_ns;
        uint64_t tail_until; /* of a stopped entity: its tails end then at the latest; else NSEC_INFINITY */

        int cpu_priority; /* of its client: nice.h */

        /* overlaps.h */
        Overlap overlap;
        Entity *overlaps_prev, *overlaps_next;

        struct {
                bool is;
                uint64_t look_at; /* NSEC_INFINITY: not */
                bool looked;      /* there was a look; `busy` and `launches` are of the last one */
                bool busy;
                uint64_t launches;
        } overdue; /* overdue.h */

        Estimate estimate; /* of unwatched time */
        PolicyUsage usage; /* of freed policy entities */
        PolicyUsage saved; /* the part that is in its group's entry: group-totals.h */
        uint64_t saved_service_wait_ns;
        uint64_t handover_ns; /* kept, not run, of the policy's run time: edges.h */
        uint64_t told_kept_ns;
        uint64_t service_wait_ns; /* time that it waited for the service to write its run verdict */
        struct {
                PolicyUsage usage;
                uint64_t service_wait_ns;
                uint64_t pass; /* when it was last looked at */
        } recorded;            /* the part that is in the record: recorder.h */

        Entity *device_prev, *device_next;
        Entity *group_prev, *group_next;
        Entity *alike_prev, *alike_next; /* ring: the same group or client, on all its devices; a queue's is its own */
        Tally *tally;
        Entity *tally_prev, *tally_next;
};

/* Makes an entity without queues. */
int entity_new(Device *d, EntityKind kind, Group *g, Client *c, const PolicySettings *settings, Entity **ret);
Entity *entity_free(Entity *e);

/* Moves a queue from its entity into `e`, or into none (e NULL). Frees the former entity when it is empty. */
void entity_take_queue(Entity *e, Queue *q);

void entity_configure(Entity *e, const PolicySettings *settings);

/* Tells the policy that the party that owns the entity, or another fact about the entity, changed. */
void entity_party_changed(Entity *e);

/* Called after limits of the device's shares changed: counts limited entities again. */
void entities_note_limits(Device *d);

/* Counts a queue anew after its `suspended` or `ready` changed, and tells the policy. */
void entity_update_queue(Queue *q);
void entity_update_queue_at(Queue *q, uint64_t at);

/* Called when its last tail ended: it leaves the policy unless it is active. */
void entity_tails_ended(Entity *e);

/* Frees the entity when it has no queue and no tail. Returns NULL then, else e. */
Entity *entity_gc(Entity *e);

/* The entity of a group or client on a device; NULL when there is none. */
Entity *entity_find(Device *d, EntityKind kind, const Group *g, const Client *c);
