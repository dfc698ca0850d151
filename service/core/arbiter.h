/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The arbiter: from events to the policy, from grants to the words of pages
 *
 * What happens is told to the policies at once; what follows from it is written in arbiter_flush(), at the end of the
 * turn of the event loop (turn.h).
 *
 * How much is heard. An unwatched slot costs its client nothing and tells the service nothing; DeviceState says which
 * are watched.
 *   ALONE      one entity. Nothing is watched but for its own sake (account.h), nothing is held.
 *   CONTENDED  all are watched (ready and idle edges; quick.h looks at some), the policy's grants are in force.
 *   QUIET      nobody was ready for ARBITER_SETTLE_NS: all may run, because whoever comes first cannot take the device
 *              from anybody. No lease has to be renewed: the service sleeps.
 *   SOLE       one entity was the only ready one for ARBITER_SETTLE_NS: it is not watched and its launches cost
 *              nothing. It counts as ready until it is looked at again: when another becomes ready, or, while others
 *              are held for its sake (which costs lease renewals), every ARBITER_PROBE_NS.
 * While a Max= counts for anybody who is active on the device it is never ALONE or SOLE: what is not watched cannot be
 * counted. Nor is it while its policy goes over several devices, and others have clients (levels.h). A limited entity
 * keeps its threshold in QUIET, too.
 * Whoever works in bursts among idle neighbours is never SOLE by the pauses, on purpose, but QUIET: its bursts go on
 * being heard, at two edges each. Believed ready throughout it would cost its neighbours more: the first launch of a
 * lower one in a pause would be held until a drain has shown that there is nothing to wait for, and the pauses would
 * count as time that it used.
 *
 * Looking again. Setting `watch` returns what is outstanding at that moment. A slot with launches that were not counted
 * is asked to drain by one datagram on the lifeline; until it has, it counts as ready.
 *
 * Stopped processes. Work of a process that was stopped (SIGSTOP, a debugger) is not waited for: while others want the
 * device, a queue whose counters stand still and whose process is stopped counts as idle until the process goes on. Who
 * is frozen by his cgroup counts so at once (halt.h).
 *
 * Leases. While a client has a held slot its lease is renewed every PAGE_LEASE_RENEW_NS. The lease is written before
 * the first hold, so that a hold is never born expired.
 */

#include "client.h"
#include "turn.h"

#define ARBITER_SETTLE_NS (100 * NSEC_PER_MSEC)
#define ARBITER_PROBE_NS  (1 * NSEC_PER_SEC)
#define ARBITER_STALL_NS  (100 * NSEC_PER_MSEC)

/* Called with a new device, and from then on its timer is the arbiter's. */
int arbiter_device_init(Device *d);

/* levels.h: other devices are told of this one, which is about to get another policy (`gone`). */
void arbiter_tell_others(Device *d, bool gone, uint64_t now);

/* Dispatches all devices that were touched, and writes what changed. */
void arbiter_flush(Manager *m);

/* PolicyCallbacks.grant, with an Entity and its Device: notes the grant, arbiter_flush() writes it. */
void arbiter_grant(void *owner, const PolicyGrant *grant, void *userdata);

/* A client may have something to say: looks at the slots that it says are dirty. Returns how many it named. */
unsigned arbiter_client_woke(Client *c);

/* Whether its words are to say hold. */
bool arbiter_holds(const Entity *e);

/* Writes what is to stand in the slots of a queue, as far as it differs; the watch flags first. */
void arbiter_sync_queue(Queue *q);

/* The slot is about to be given back: it runs, without bounds and unwatched. */
void arbiter_release_queue(Queue *q);

/* edges.c: a queue has become ready, or idle, at that time; one whose process had stopped goes on. */
void arbiter_queue_ready(Queue *q, bool ready, uint64_t at);
void arbiter_queue_goes_on(Queue *q);

/* lease.c: a slot of the client begins or ceases to be held. */
int lease_init(Manager *m);
void lease_begin(Client *c);
void lease_end(Client *c);
