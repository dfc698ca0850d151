/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The ladder: how far the hold of an entity reaches, and what came of it
 *
 * When an entity begins to be held, and whenever preemption_patience() says so, preemption_choose() is asked; what it
 * says stands in the slots until the next hold. Between two holds the level stays as it was, so that letting go is
 * ordered the same way as holding.
 *
 * An order to a driver is a changed verdict, or a changed level of a held slot, with a level above the gate on either
 * side; the slot's `ordered_ns` is written before it, and a datagram tells the client's control thread, which sleeps.
 * All queues of a client that an event changes are one datagram. What the client says its driver took is read when the
 * next order of that slot is given: nobody waits for it. How long it can have been at most is known from when the slot
 * was first seen to be obedient, which is looked at whenever verdicts have been written, and at a few slots at a time:
 * who does not obey keeps nobody from being looked at.
 *
 * Whoever ignores an order is gated all the same, and keeps its queues on the device; the service can only do without
 * it where it is privileged.
 */

#include "client.h"

#define LADDER_REVIEW_MIN_NS (50 * NSEC_PER_USEC)

/* How many slots are looked at at a time. */
#define LADDER_LOOKS 8U

/* An order that was not carried out after this time is ignored; so nothing that was carried out can have taken
 * longer. */
#define LADDER_IGNORED_NS (50 * NSEC_PER_MSEC)

/* The setting that counts for an entity on its device, and for its suspended queues. */
Preemption ladder_setting(const Entity *e);

/* The rung of those whom the process itself cannot hold, by whoever has it to offer (Manager.privilege). */
typedef struct PrivilegeOps {
        bool (*is_possible)(const Client *c);          /* a hold of this client can be tried now */
        bool (*costs)(const Client *c, HalCosts *ret); /* false: not measured */
} PrivilegeOps;

/* Chooses when the entity begins to be held, forgets when it ends. Cheap when nothing changed. Returns whether
 * something did. */
bool ladder_set_held(Entity *e, bool held, uint64_t now);

/* A held entity has something in flight that it had not before. */
void ladder_ready_while_held(Entity *e);

/* What it depends on beside time has changed. */
void ladder_reconsider(Entity *e);

/* The time has come to choose anew: returns whether the choice is another one. */
bool ladder_review(Entity *e, uint64_t now);

/* The level that is to stand in a queue's slot with this verdict. */
PreemptLevel ladder_level(const Queue *q, Verdict v);

/* Whether a queue that is held wants the service's own hold, too. */
bool ladder_is_privileged(const Queue *q);

/* Whether its driver was told to take it off, and has. */
bool ladder_queue_is_off(const Queue *q);

/* Around the store of a verdict or a level. The first before: learns what came of the last order. The second after. */
void ladder_before_order(Queue *q);
void ladder_after_order(Queue *q, bool driver);

/* Its driver is about to be told something. */
void ladder_note_order(Queue *q, uint64_t now);

/* Looks at who has obeyed. */
void ladder_look(Manager *m);

/* The queue ends: so does its part in its owner's vote. */
void ladder_queue_gone(Queue *q);

/* Tells the clients whose queues had an order. */
void ladder_flush(Manager *m);

/* A client that ends has nothing more to be told. */
void ladder_forget(Client *c);

/* What the queue, the entity, the client has in flight, in time. */
uint64_t ladder_queue_drain(const Queue *q);
uint64_t ladder_entity_drain(const Entity *e);
uint64_t ladder_client_drain(const Client *c);

/* What a queue's driver can do, the administrator's word on MES taken in; and whether MES schedules a device of this
 * name ("gfx1100"): who cannot be read counts as such. */
PreemptLevel ladder_queue_max_level(const Queue *q);
bool ladder_name_has_mes(const char *backend, const char *name);

/* Whether a hold of it, which has an entity, can reach beyond the gate by the process's own means. */
bool ladder_can_take_off(const Queue *q);

/* The same, or by the service's own. */
bool ladder_can_stop(const Queue *q);
