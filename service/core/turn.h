/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Turns: what is left for the end of this turn of the event loop
 *
 * Handlers of events change objects and return. What follows for the words of pages is noted here, and written once, by
 * manager_turn() at the end of the turn: so one event of many parts (a client with several queues, a changed class) is
 * one decision per device. What is due after that, for observers too, is due in the same turn.
 *
 * Who answers a caller that may look at its page when it has the answer writes before the answer: arbiter_flush().
 *
 * Thread safety: none; the event loop's thread only.
 */

#include "client.h"

/* The turn has to end with verdicts, and with ObserverOps.turn_ended. */
static inline void turn_due(Manager *m) {
        m->turn_due = true;
}

/* Whether something is left that arbiter_flush() does. */
static inline bool turn_is_due(const Manager *m) {
        return m->turn_due || m->n_ready_since > 0;
}

/* The device is to be dispatched. */
void device_touch(Device *d);

/* The same, and all its slots are to be compared with what is to stand there. */
void device_sync(Device *d);

/* What the device's next decision follows from happened then. */
void device_note_cause(Device *d, uint64_t at);

/* What is to stand in the slots of the entity may be something else now. */
void entity_words_changed(Entity *e);

/* In the middle of something that takes long, where all objects are as they should be: makes the verdicts that have
 * become due by edges, as wakes_turn() does. Cheap where the last look was a moment ago. It frees no object. */
void turn_look(Manager *m);
