/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Overlaps of a device: the time of a tail (tail.h) beside the entity that is let run meanwhile
 *
 * The policy charges a tail for all its time, unless it is told what the tail had of it (PolicyOps.entity_tail_had()).
 * overlap.h says how that is estimated: from what the client of the tail says of its launches in flight, and from what
 * the runner has got done by its own counts. Neither can gain much by lies: the one pays for whatever the other has not
 * got done, and the other for whatever it says that it has.
 *
 * Time is divided before anything is told to the policy that may change who is charged, before each decision, before
 * usage is read, and at Device.overlap_at. Tails that nobody runs beside, those of stopped entities, all after
 * POLICY_TAIL_MAX, and tails on devices with a Concurrency= above 1 are charged in full. Of several tails the first is
 * divided, as the first has the device.
 *
 * Cost: O(1) where there are none; else a look at the runner's slots, OVERLAP_QUEUES_MAX at most. A runner with more
 * queues has got nothing done that counts here.
 */

#include "entity.h"

#define OVERLAP_QUEUES_MAX 64U

/* Called when the entity is held since the last decision with launches in flight, which take `own_ns` by its client's
 * estimate. Idempotent. */
void overlaps_begin(Entity *e, uint64_t own_ns);

/* Called before the policy is told that the tail is over, or the entity leaves it. `ended`: its launches have ended. */
void overlaps_end(Entity *e, bool ended, uint64_t at);

/* The same without a call of the policy: time is divided up to now. */
void overlaps_forget(Entity *e);

/* Called when the entity does not run any more. */
void overlaps_forget_runner(const Entity *e);

/* Divides the time up to `at`, on a device with overlaps. */
void overlaps_divide(Device *d, uint64_t at);

static inline void overlaps_look(Device *d, uint64_t at) {
        if (d->overlaps)
                overlaps_divide(d, at);
}

/* Called when verdicts are written, if there are overlaps: notes who runs, and what it has got done so far, and
 * sets Device.overlap_at. */
void overlaps_note_runner(Device *d);
