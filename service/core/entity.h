/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Entities: what gets one verdict on one device
 *
 * A group on a device; or a client that has an override of its own; or a queue that has. An entity is made with its
 * first queue, and goes with its last and with what those have left in flight (tail.h). Only queues that are not
 * suspended count: while none is left, the entity is taken out of the policy, so that nobody waits for it, and its
 * queues are held.
 *
 * Invariants, restored by entity_update() after every change of a queue:
 *   n_queues >= n_active >= n_ready;  policy != NULL iff n_active > 0 or something of it runs on still, by tail.h (or
 *   memory ran out: then its queues run);
 *   the policy was told ready iff n_ready > 0.
 */

#include "device.h"
#include "estimate.h"
#include "policy/policy.h"

typedef enum EntityKind {
        ENTITY_GROUP,
        ENTITY_CLIENT,
        ENTITY_QUEUE,
        _ENTITY_KIND_MAX,
} EntityKind;

const char *entity_kind_to_string(EntityKind v);
int entity_kind_from_string(const char *s);

/* See gang.h. */
typedef enum GangVerdict {
        GANG_NONE, /* its own grant counts */
        GANG_RUN,
        GANG_HOLD,
} GangVerdict;

struct Entity {
        Device *device;
        EntityKind kind;
        Group *group;   /* always */
        Client *client; /* ENTITY_CLIENT and ENTITY_QUEUE; NULL: it is gone, and something of it runs on */

        Queue *queues; /* list, by entity_prev/entity_next */
        unsigned n_queues, n_active, n_ready;
        unsigned n_stopped; /* would be ready, but their processes are stopped, or frozen */

        PolicySettings settings;
        PolicyEntity *policy;
        Share *share; /* with `policy` */
        bool counted; /* in the device's n_active: while its own is not 0 */
        bool limited; /* a Max= counts for it; counted in the device */
        bool told_ready;
        uint64_t ready_at; /* since then */
        PolicyGrant grant; /* the policy's last word */
        bool changed;      /* on the device's list of changed grants */
        GangVerdict gang;
        uint64_t gang_since;
        PreemptionChoice choice; /* while it is held: how far that reaches */
        uint64_t held_since;     /* 0: it is not */
        uint64_t review_at;      /* when the choice is made anew */
        Entity *changed_next;

        /* tail.h */
        unsigned n_tails;         /* of its queues, and its remnants */
        struct Remnant *remnants; /* list */
        bool tail_awaited;        /* the policy is to be told when there are none */
        uint64_t tail_look_at;    /* NSEC_INFINITY: not */
        uint64_t tail_look_ns;
        uint64_t tail_until; /* of an entity that was stopped: then there are none in any case; NSEC_INFINITY */

        struct {
                bool held, is;
                uint64_t look_at; /* NSEC_INFINITY: not */
                bool looked;      /* the rest is what the last look saw */
                bool busy;
                uint64_t launches;
        } overdue; /* overdue.h */

        Estimate estimate; /* of what was not watched */
        PolicyUsage usage; /* of policy entities that are gone */
        PolicyUsage saved; /* what its group's entry has of it: group-totals.h */
        uint64_t saved_service_wait_ns;
        uint64_t handover_ns; /* of what the policy counted: edges.h */
        uint64_t told_kept_ns;
        uint64_t service_wait_ns; /* it was let go, and had waited for us to say so */
        struct {
                PolicyUsage usage;
                uint64_t service_wait_ns;
                uint64_t pass; /* when it was last looked at */
        } recorded;            /* what is in the record: recorder.h */

        Entity *device_prev, *device_next;
        Entity *group_prev, *group_next;
        Tally *tally;
        Entity *tally_prev, *tally_next;
};

/* Makes an entity without queues. */
int entity_new(Device *d, EntityKind kind, Group *g, Client *c, const PolicySettings *settings,
                Entity **ret);
Entity *entity_free(Entity *e);

/* Moves a queue into this entity (out of the one it is in), or out of any (e NULL). An entity that is left empty is
 * freed. */
void entity_take_queue(Entity *e, Queue *q);

void entity_configure(Entity *e, const PolicySettings *settings);

/* entity-facts.c: what the policy is told: weight, utilisation and `nice` count among those of its group, where what
 * stands for the group as a whole has the usual ones. */
PolicySettings entity_settings(const Entity *e);

/* Whose it is; and that has changed. */
PolicyParty entity_party(const Entity *e);
void entity_party_changed(Entity *e);

/* What of a device's shares is limited has changed. */
void entities_note_limits(Device *d);

/* Counts a queue anew after its `suspended` or `ready` changed, and tells the policy. */
void entity_update_queue(Queue *q);
void entity_update_queue_at(Queue *q, uint64_t at);

/* Nothing of it runs on: it leaves the policy, unless it is active. */
void entity_tails_ended(Entity *e);

/* Frees it when nothing is left of it. Returns NULL then, else e. */
Entity *entity_gc(Entity *e);

/* usage.c: run time by what was watched, since the entity was made. */
uint64_t entity_counted(const Entity *e, uint64_t now);

/* Everything since the entity was made, to be told: it never goes back, nor does the next service. */
void entity_usage(Entity *e, uint64_t now, PolicyUsage *ret);

void usage_add(PolicyUsage *sum, const PolicyUsage *add);

/* The group entity, or the client's, on a device; NULL when there is none. */
Entity *entity_find(Device *d, EntityKind kind, const Group *g, const Client *c);

/* For people: the group's name, "client 3" or "queue 7". Into buf, which is returned. */
const char *entity_name(const Entity *e, char *buf, size_t size);
