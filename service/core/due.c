/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Due times: a binary heap
 */

#include <errno.h>
#include <stdlib.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "due.h"

static void put(Dues *s, unsigned place, Due *d) {
        s->heap[place - 1] = d;
        d->place = place;
}

static Due *at_place(const Dues *s, unsigned place) {
        return s->heap[place - 1];
}

/* Moves it towards the first place while it is earlier than the one before. */
static void rise(Dues *s, Due *d) {
        unsigned place = d->place;

        for (; place > 1 && at_place(s, place / 2)->at > d->at; place /= 2)
                put(s, place, at_place(s, place / 2));
        put(s, place, d);
}

/* Moves it away from the first place while one behind it is earlier. */
static void sink(Dues *s, Due *d) {
        unsigned place = d->place;

        for (unsigned next; (next = 2 * place) <= s->n; place = next) {
                if (next < s->n && at_place(s, next + 1)->at < at_place(s, next)->at)
                        next++;
                if (at_place(s, next)->at >= d->at)
                        break;
                put(s, place, at_place(s, next));
        }
        put(s, place, d);
}

static void take_out(Due *d) {
        Dues *s = d->dues;
        Due *last = at_place(s, s->n--);

        if (last != d) {
                put(s, d->place, last);
                rise(s, last);
                sink(s, last);
        }
        d->place = 0;
}

int due_init(Due *d, Dues *dues, DueHandler *handler) {
        if (dues->n_made >= dues->n_allocated) {
                unsigned n = MAX(2 * dues->n_allocated, 8U);
                Due **heap = reallocarray(dues->heap, n, sizeof(*heap));
                if (!heap)
                        return -ENOMEM;
                dues->heap = heap;
                dues->n_allocated = n;
        }
        dues->n_made++;
        *d = (Due){.at = NSEC_INFINITY, .handler = handler, .dues = dues};
        return 0;
}

void due_done(Due *d) {
        if (!d->dues)
                return;
        due_set(d, NSEC_INFINITY);
        d->dues->n_made--;
        *d = (Due){};
}

void due_set(Due *d, uint64_t at) {
        Dues *s = d->dues;

        if (at == d->at)
                return;
        d->at = at;
        if (at == NSEC_INFINITY) {
                take_out(d);
                return;
        }
        if (d->place == 0)
                put(s, ++s->n, d);
        rise(s, d);
        sink(s, d);
}

uint64_t dues_next(const Dues *s) {
        return s->n > 0 ? s->heap[0]->at : NSEC_INFINITY;
}

unsigned dues_turn(Dues *s, uint64_t now) {
        unsigned n = 0, most = s->n;

        for (; n < most && dues_next(s) <= now; n++) {
                Due *d = s->heap[0];
                due_set(d, NSEC_INFINITY);
                d->handler(d);
        }
        return n;
}

void dues_done(Dues *s) {
        free(s->heap);
        *s = (Dues){};
}
