/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reviews
 */

#include <utlist.h>

#include "gang.h"
#include "ladder.h"
#include "observer.h"
#include "review.h"
#include "tail.h"
#include "turn.h"

static uint64_t entity_review_at(const Entity *e) {
        uint64_t tail_at = MIN(e->tail_look_at, e->tail_until), held_at = MIN(e->review_at, e->overdue.look_at);
        uint64_t at = MIN(tail_at, held_at), gang_at = gang_review_at(e);

        return MIN(at, gang_at);
}

void device_review(Device *d, uint64_t now) {
        Entity *e, *tmp;

        d->review_at = NSEC_INFINITY;
        DL_FOREACH_SAFE2(d->reviewed, e, tmp, reviewed_next) {
                if (ladder_review(e, now))
                        entity_words_changed(e);
                observers_entity_reviewed(e, now);
                tail_review(e, now);
                gang_review(e, now);
                uint64_t at = entity_review_at(e);
                d->review_at = MIN(d->review_at, at);
                if (at == NSEC_INFINITY) {
                        e->reviewed = false;
                        DL_DELETE2(d->reviewed, e, reviewed_prev, reviewed_next);
                }
        }
}
