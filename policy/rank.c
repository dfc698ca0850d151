/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues by rank: rank.h says what they are.
 */

#include "rank.h"
#include "common/macro.h"

static FairNode *node_of(AvlNode *n) {
        return n ? container_of(n, FairNode, order) : NULL;
}

static bool is_before(const FairNode *x, const FairNode *y) {
        int64_t d = (int64_t) (x->vtime - y->vtime);

        return d < 0 || (d == 0 && x->seq < y->seq);
}

static bool rank_before(const AvlNode *a, const AvlNode *b) {
        return is_before(container_of(a, FairNode, order), container_of(b, FairNode, order));
}

static void rank_update(AvlNode *n) {
}

void rank_queue_init(FairQueue *q) {
        *q = (FairQueue){.waiting = {.before = rank_before, .update = rank_update}};
}

/* A queue below is not empty: a node without an entity is not in the queue. */
static void take_rank(FairNode *n) {
        const FairNode *first = n->below ? node_of(avl_first(&n->below->waiting)) : NULL;

        if (!first)
                return;
        n->vtime = first->vtime;
        n->seq = first->seq;
}

void rank_queue_join(FairQueue *q, FairNode *n, uint32_t places) {
        n->state = FAIR_HERE;
        n->places = places;
        q->places += places;
        q->n_here++;
        take_rank(n);
        avl_insert(&q->waiting, &n->order);
}

void rank_queue_leave(FairQueue *q, FairNode *n) {
        n->state = FAIR_AWAY;
        q->places -= n->places;
        q->n_here--;
        avl_remove(&q->waiting, &n->order);
}

void rank_queue_put(FairQueue *q, FairNode *n, uint64_t rank, uint64_t seq) {
        avl_remove(&q->waiting, &n->order);
        n->vtime = rank;
        n->seq = seq;
        avl_insert(&q->waiting, &n->order);
}

bool rank_queue_fit(FairQueue *q, FairNode *n, uint32_t places) {
        const FairNode before = *n;

        avl_remove(&q->waiting, &n->order);
        q->places += places - n->places;
        n->places = places;
        take_rank(n);
        avl_insert(&q->waiting, &n->order);
        return n->places != before.places || n->vtime != before.vtime || n->seq != before.seq;
}

/* The first node of the queue itself whose rank is after that of `last`. NULL: the first of all. */
static FairNode *first_after(const FairQueue *q, const FairNode *last) {
        FairNode *n = node_of(q->waiting.root), *first = NULL;

        while (n) {
                bool after = !last || is_before(last, n);

                first = after ? n : first;
                n = node_of(after ? n->order.left : n->order.right);
        }
        return first;
}

/* Loops over the levels of the tree, POLICY_DEPTH_MAX at most. */
static FairNode *first_below(FairNode *n) {
        while (n && n->below)
                n = first_after(n->below, NULL);
        return n;
}

/* A queue below whose first entity is not after `last` may have another that is. There are at most as many such queues
 * as entities up to `last`. */
FairNode *rank_queue_next(const FairQueue *q, const FairNode *last) {
        FairNode *best = first_below(first_after(q, last)), *n = NULL;

        if (!last)
                return best;
        while ((n = first_after(q, n)) && !is_before(last, n)) {
                FairNode *below = n->below ? rank_queue_next(n->below, last) : NULL;

                if (below && (!best || is_before(below, best)))
                        best = below;
        }
        return best;
}
