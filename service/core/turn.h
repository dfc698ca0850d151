/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Turn: work that is left for the end of this turn of the event loop
 *
 * Event handlers change objects and note here which words may change. manager_turn() writes the words once, at the end
 * of the turn, so that an event with many parts (a client with several queues, a changed class) makes one decision per
 * device. Observers are told in the same turn.
 *
 * The manager writes them, by arbiter_flush(): after edges, and when the turn ends. Only before a caller is told that a
 * change is done, and may look at its page, bus_settle() does.
 *
 * Thread safety: none; the event loop's thread only.
 */

#include "client.h"

/* Makes the turn end with verdicts. */
static inline void turn_due(Manager *m) {
        m->turn_due = true;
}

/* Called by an observer that has work for the end of the turn: makes the next turn that ends tell
 * ObserverOps.turn_ended once. */
static inline void turn_ask_end(Manager *m) {
        m->turn_end_asked = true;
}

/* Whether there is work for arbiter_flush(). */
static inline bool turn_is_due(const Manager *m) {
        return m->turn_due || m->n_ready_since > 0;
}

/* Marks the device to be dispatched. */
void device_touch(Device *d);

/* The same, and has all its slots compared with the words that they should hold. */
void device_sync(Device *d);

/* Notes when the cause of the device's next decision happened. */
static inline void device_note_cause(Device *d, uint64_t at) {
        d->cause_at = MIN(d->cause_at, at);
}

/* Has the entity looked at by device_review() in the first turn from then on. */
void entity_review_by(Entity *e, uint64_t at);

/* Called when anything but time has changed that the choice depends on how far its hold reaches (ladder.h): it is made
 * anew in the next turn. */
void entity_reconsider(Entity *e);

/* Called when the words of the entity's slots may have changed. */
void entity_words_changed(Entity *e);

/* Called during long work, at points where all objects are consistent: the manager hears edges and writes the resulting
 * verdicts. Cheap when the last look was a moment ago. Frees no object. */
void turn_look(Manager *m);
