/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Arbiter: from events to the policy, from grants to the words of pages
 *
 * Events are told to the policies at once. The resulting words are written by arbiter_flush(), at the end of the turn
 * of the event loop (turn.h), when all devices have decided: a decision for one device may change that for another, by
 * a global policy (levels.h) or a gang (gang.h), and a queue must not be released and held again in between.
 *
 * Watching. An unwatched slot costs its client nothing and tells the service nothing. DeviceState says which slots are
 * watched.
 *   ALONE      one entity. Nothing is watched except for its account (account.h), nothing is held.
 *   CONTENDED  all slots are watched (ready and idle edges; quick.h polls some), the policy's grants are in force.
 *   QUIET      no entity was ready for ARBITER_SETTLE_NS: all may run, because the first one cannot take the device
 *              from another. No lease has to be renewed: the service sleeps.
 *   SOLE       one entity was the only ready one for ARBITER_SETTLE_NS: it is not watched and its launches cost
 *              nothing. It counts as ready until it is looked at again: when another becomes ready, or, while others
 *              are held for its sake (which costs lease renewals), every ARBITER_PROBE_NS.
 * The device is never ALONE or SOLE while a Max= counts for an active entity, because unwatched time cannot be counted;
 * nor while its policy goes over several devices and others have clients (levels.h). A limited entity keeps its
 * threshold in QUIET, too. An entity that works in bursts among idle neighbours is QUIET in its pauses, not SOLE, on
 * purpose: each burst costs two edges. Were it believed ready throughout, a neighbour's first launch in a pause would
 * be held until a drain has shown that the device is free, and the pauses would count as its run time.
 *
 * Looking again. Setting `watch` returns the slot's outstanding launches at that moment. A slot with uncounted launches
 * is asked to drain by one datagram on the lifeline; until it has drained, it counts as ready.
 *
 * Leases. While a client has a held slot its lease is renewed every PAGE_LEASE_RENEW_NS. The lease is written before
 * the first hold, so that a hold is never born expired.
 */

#include "client.h"
#include "turn.h"

#define ARBITER_SETTLE_NS (100 * NSEC_PER_MSEC)
#define ARBITER_PROBE_NS  (1 * NSEC_PER_SEC)

/* Makes the due time of a new device, at which the arbiter dispatches it. */
void arbiter_device_init(Device *d);

/* Tells the other devices the level of this one (levels.h). `gone`: the device is about to get another policy. */
void arbiter_tell_others(Device *d, bool gone, uint64_t now);

/* Dispatches all devices on Manager.pending, and writes the changed words, one verdict at most for each queue. */
void arbiter_flush(Manager *m);

/* PolicyCallbacks.grant, with an Entity and its Device: notes the grant, arbiter_flush() writes it. */
void arbiter_grant(void *owner, const PolicyGrant *grant, void *userdata);

/* Called after a client's wake-up: looks at the slots that it marked as dirty. Returns how many it marked. */
unsigned arbiter_client_woke(Client *c);

/* Whether the entity is to be held. */
bool arbiter_holds(const Entity *e);

/* Writes the slot of a queue where it differs from what it should be; the watch flags first. */
void arbiter_sync_queue(Queue *q);

/* Called before a slot is given back: writes run, without bounds and unwatched. */
void arbiter_release_queue(Queue *q);

/* Called by edges.c: the queue became ready or idle at `at`. */
void arbiter_queue_ready(Queue *q, bool ready, uint64_t at);
