/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Due times
 */

#include "due.h"
#include "common/macro.h"
#include "common/time-util.h"

/* Orders dues of the same time by their addresses, which do not change. */
static bool due_before(const AvlNode *a, const AvlNode *b) {
        const Due *one = container_of(a, const Due, order), *other = container_of(b, const Due, order);

        return one->at != other->at ? one->at < other->at : one < other;
}

static Due *due_of(AvlNode *n) {
        return container_of(n, Due, order);
}

static void due_update(AvlNode *n) {
        Due *d = due_of(n);

        d->first_by = d->by;
        if (n->left)
                d->first_by = MIN(d->first_by, due_of(n->left)->first_by);
        if (n->right)
                d->first_by = MIN(d->first_by, due_of(n->right)->first_by);
}

static Due *dues_first(const Dues *s) {
        AvlNode *n = avl_first(&s->order);

        return n ? due_of(n) : NULL;
}

void due_init(Due *d, Dues *dues, DueHandler *handler) {
        dues->order.before = due_before;
        dues->order.update = due_update;
        *d = (Due){.at = NSEC_INFINITY, .by = NSEC_INFINITY, .handler = handler, .dues = dues};
}

void due_done(Due *d) {
        if (d->dues)
                due_set(d, NSEC_INFINITY);
        *d = (Due){};
}

void due_set(Due *d, uint64_t at) {
        due_set_by(d, at, at);
}

void due_set_by(Due *d, uint64_t at, uint64_t by) {
        if (at == d->at && by == d->by)
                return;
        if (d->at != NSEC_INFINITY)
                avl_remove(&d->dues->order, &d->order);
        d->at = at;
        d->by = by;
        if (at != NSEC_INFINITY)
                avl_insert(&d->dues->order, &d->order);
}

uint64_t dues_next(const Dues *s) {
        const Due *d = dues_first(s);

        return d ? d->at : NSEC_INFINITY;
}

uint64_t dues_latest(const Dues *s) {
        return s->order.root ? due_of(s->order.root)->first_by : NSEC_INFINITY;
}

unsigned dues_turn(Dues *s, uint64_t now) {
        size_t most = s->order.n;
        unsigned n = 0;
        Due *d;

        for (; n < most && (d = dues_first(s)) && d->at <= now; n++) {
                due_set(d, NSEC_INFINITY);
                d->handler(d);
        }
        return n;
}
