/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ladder: how far the hold of an entity reaches, and whether drivers obey
 *
 * preemption_choose() chooses a level when an entity begins to be held, and again whenever preemption_patience() says
 * so. The level stays in the slots until the next hold, so that the release is ordered the same way as the hold.
 *
 * An order to a driver is a changed verdict, or a changed level of a held slot, with a level above the gate on either
 * side. The slot's `ordered_ns` is written before it, and a datagram wakes the client's control thread. A process with
 * nothing in flight on the device, whose launches all pass the gate, is held at the gate whatever the choice is: its
 * driver gets no order, and later need not release it. When launches turn out to be in flight after all, the driver
 * gets the order then.
 *
 * One datagram tells a client of all its queues that an event changed. The service never waits for a driver: it reads
 * the time that the driver took, as the client says, when it gives that slot's next order. The upper bound of that time
 * is the moment at which the slot was first seen to obey. Slots are looked at whenever verdicts have been written,
 * LADDER_LOOKS at a time and in turn, so that a client that does not obey delays no other.
 *
 * A client that ignores an order is still held at the gate, but its queues stay on the device. Only a privileged
 * service can take them off without the client.
 */

#include "client.h"
#include "hal/hal.h"

#define LADDER_REVIEW_MIN_NS (50 * NSEC_PER_USEC)

/* Slots that one ladder_look() looks at. */
#define LADDER_LOOKS 8U

/* An order that is not carried out within this time counts as ignored; so no measured time is longer. */
#define LADDER_IGNORED_NS (50 * NSEC_PER_MSEC)

/* Called when the Preemption= of the entity or its device was set: resolves Entity.preemption. It counts for suspended
 * queues, too. */
void ladder_resolve(Entity *e);

/* The privileged rung, for clients that their own process cannot hold. Set as Manager.privilege by service/enforce. */
typedef struct PrivilegeOps {
        bool (*is_possible)(const Client *c);          /* a privileged hold of this client can be tried now */
        bool (*costs)(const Client *c, HalCosts *ret); /* false: not measured */
} PrivilegeOps;

/* Called when a hold of the entity begins, for which it chooses a level, or ends. */
void ladder_set_held(Entity *e, bool held, uint64_t now);

/* Called when a queue of a held entity has launches in flight that it did not have before. */
void ladder_ready_while_held(Queue *q);

/* Called at Entity.review_at: chooses again. Returns whether the choice changed. */
bool ladder_review(Entity *e, uint64_t now);

/* The level to write into a queue's slot with this verdict. */
PreemptLevel ladder_level(const Queue *q, Verdict v);

/* Whether a held queue needs the service's privileged hold, too. */
bool ladder_is_privileged(const Queue *q);

/* Whether the queue's driver was ordered to take it off the device, and has done so. */
bool ladder_queue_is_off(const Queue *q);

/* Called before the store of a verdict or level, if the queue's driver has an order (Queue.ordered_ns): learns from its
 * outcome. */
void ladder_before_order(Queue *q);

/* Called after a store that is an order to the driver. */
void ladder_after_order(Queue *q);

/* Called before an order to the queue's driver: notes when it was given. */
void ladder_note_order(Queue *q, uint64_t now);

/* Looks which slots have obeyed their orders, LADDER_LOOKS of them. */
void ladder_look(Manager *m);

/* Called when the queue ends: gives back its reference to its owner's vote. */
void ladder_queue_gone(Queue *q);

/* Sends the datagrams of all orders since the last call. */
void ladder_flush(Manager *m);

/* Called when a client ends: drops the datagram that it was to get. */
void ladder_forget(Client *c);

/* Estimated time, in ns, until all launches in flight have ended. */
uint64_t ladder_queue_drain(const Queue *q);
uint64_t ladder_entity_drain(const Entity *e); /* without queues that sit out (rota.h) and are off the device */
uint64_t ladder_client_drain(const Client *c);

/* The highest level that a queue's driver can do, under the administrator's setting for MES; and whether MES schedules
 * a device of this name ("gfx1100"): true when the name cannot be parsed. */
PreemptLevel ladder_queue_max_level(const Queue *q);
bool ladder_name_has_mes(const char *backend, const char *name);

/* Whether the queue has a driver that can take it off the device where settings allow that. */
static inline bool ladder_has_driver(const Queue *q) {
        return q->max_level >= LEVEL_DEQUEUE || q->mes;
}

/* Whether its own process can take the queue off the device. The queue must have an entity. */
bool ladder_can_take_off(const Queue *q);

/* Whether the process or the privileged service can take the queue off the device. */
bool ladder_can_stop(const Queue *q);
