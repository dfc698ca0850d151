/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Turns
 */

#include <utlist.h>

#include "turn.h"

/* Minimum time between two looks for edges inside of a handler. */
#define TURN_APART_NS (10 * NSEC_PER_USEC)

void device_touch(Device *d) {
        if (d->pending)
                return;
        d->pending = true;
        LL_PREPEND2(d->manager->pending, d, pending_next);
        turn_due(d->manager);
}

void device_sync(Device *d) {
        d->sync = true;
        device_touch(d);
}

void entity_words_changed(Entity *e) {
        if (e->changed)
                return;
        e->changed = true;
        LL_PREPEND2(e->device->changed, e, changed_next);
}

void entity_review_by(Entity *e, uint64_t at) {
        Device *d = e->device;

        d->review_at = MIN(d->review_at, at);
        if (e->reviewed || at == NSEC_INFINITY)
                return;
        e->reviewed = true;
        DL_APPEND2(d->reviewed, e, reviewed_prev, reviewed_next);
}

void entity_reconsider(Entity *e) {
        if (e->held_since == 0)
                return;
        e->review_at = 0;
        e->looks_at_flights = false;
        entity_review_by(e, 0);
        device_touch(e->device);
}

void turn_look(Manager *m) {
        const Wakes *w = &m->wakes;

        if (!w->look || w->busy || m->stopping || w->looked_at == 0 || now_ns() - w->looked_at < TURN_APART_NS)
                return;
        w->look(m);
}
