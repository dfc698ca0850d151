/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weighted fair virtual time; the rules and their reasons stand in fair.h.
 */

#include <utlist.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "fair.h"

static FairNode *fair_node_of(HeapNode *h) {
        return h ? container_of(h, FairNode, heap) : NULL;
}

/* Positive: a is ahead of (has had more than) b. */
static int64_t fair_ahead(uint64_t a, uint64_t b) {
        return (int64_t) (a - b);
}

static bool fair_before(const HeapNode *a, const HeapNode *b) {
        const FairNode *x = container_of(a, FairNode, heap), *y = container_of(b, FairNode, heap);
        int64_t d = fair_ahead(x->vtime, y->vtime);

        return d < 0 || (d == 0 && x->seq < y->seq);
}

/* ns of run time to virtual time, and back (rounded up: after that time the distance has been covered). */
static uint64_t fair_cost(uint64_t ns, uint64_t weight, uint64_t slots) {
        return (uint64_t) ((fair_wide_t) MIN(ns, FAIR_STEP_MAX) * (fair_wide_t) (FAIR_SCALE * slots) /
                        (fair_wide_t) weight);
}

static uint64_t fair_time(uint64_t vtime, uint64_t weight) {
        return (uint64_t) (((fair_wide_t) vtime * weight + FAIR_SCALE - 1) / FAIR_SCALE);
}

static uint64_t fair_lag_max(const FairNode *n, uint64_t slice_ns) {
        return fair_cost(slice_ns, n->weight, FAIR_LAG_SLICES);
}

/* V. Moves the origin there, which keeps the sum small. */
static uint64_t fair_queue_vtime(FairQueue *q) {
        if (q->weight > 0) {
                fair_wide_t d = q->sum / (fair_wide_t) q->weight;

                q->origin += (uint64_t) d;
                q->sum -= d * (fair_wide_t) q->weight;
        }
        return q->origin;
}

static void fair_queue_add(FairQueue *q, const FairNode *n) {
        q->sum += (fair_wide_t) n->weight * fair_ahead(n->vtime, q->origin);
        q->weight += n->weight;
}

static void fair_queue_subtract(FairQueue *q, const FairNode *n) {
        q->sum -= (fair_wide_t) n->weight * fair_ahead(n->vtime, q->origin);
        q->weight -= n->weight;
}

static void fair_queue_wait(FairQueue *q, FairNode *n) {
        n->state = FAIR_WAITING;
        n->seq = q->seq++;
        heap_insert(&q->waiting, &n->heap);
}

static void fair_queue_run(FairQueue *q, FairNode *n) {
        FairNode *lighter;

        n->state = FAIR_RUNNING;
        DL_FOREACH(q->running, lighter)
                if (lighter->weight < n->weight)
                        break;
        if (lighter)
                DL_PREPEND_ELEM(q->running, lighter, n);
        else
                DL_APPEND(q->running, n);
        q->n_running++;
}

/* Out of the heap or the list, whichever it is in. */
static void fair_queue_take(FairQueue *q, FairNode *n) {
        if (n->state == FAIR_WAITING)
                heap_remove(&q->waiting, &n->heap);
        else {
                DL_DELETE(q->running, n);
                q->n_running--;
        }
}

void fair_queue_init(FairQueue *q) {
        *q = (FairQueue){.waiting = HEAP_INIT(fair_before)};
}

void fair_node_init(FairNode *n, FairQueue *q, uint32_t weight) {
        *n = (FairNode){.weight = weight, .vtime = fair_queue_vtime(q)};
}

void fair_queue_join(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        uint64_t v = fair_queue_vtime(q), behind = 0;
        int64_t ahead = fair_ahead(n->vtime, v);

        /* Its coming moves V towards it: it must start further behind to be as far behind as it was. */
        if (q->weight > 0)
                behind = (uint64_t) ((fair_wide_t) n->credit * (fair_wide_t) (q->weight + n->weight) /
                                (fair_wide_t) q->weight);

        n->vtime = ahead > 0 ? v + MIN((uint64_t) ahead, fair_lag_max(n, slice_ns)) : v - behind;
        n->credit = 0;
        fair_queue_add(q, n);
        fair_queue_wait(q, n);
}

void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        int64_t behind = fair_ahead(fair_queue_vtime(q), n->vtime);

        n->credit = behind > 0 ? MIN((uint64_t) behind, fair_lag_max(n, slice_ns)) : 0;
        fair_queue_take(q, n);
        fair_queue_subtract(q, n);
        n->state = FAIR_AWAY;
}

void fair_node_move(FairNode *n, FairQueue *from, FairQueue *to) {
        n->vtime += fair_queue_vtime(to) - fair_queue_vtime(from);
}

void fair_queue_reweight(FairQueue *q, FairNode *n, uint32_t weight) {
        FairState state = n->state;
        uint64_t v = fair_queue_vtime(q);

        if (state != FAIR_AWAY) {
                fair_queue_take(q, n);
                fair_queue_subtract(q, n);
        }
        n->vtime = v + (uint64_t) ((fair_wide_t) fair_ahead(n->vtime, v) * n->weight / weight);
        n->credit = (uint64_t) ((fair_wide_t) n->credit * n->weight / weight);
        n->weight = weight;
        if (state == FAIR_AWAY)
                return;

        fair_queue_add(q, n);
        if (state == FAIR_WAITING)
                heap_insert(&q->waiting, &n->heap);
        else
                fair_queue_run(q, n);
}

void fair_queue_advance(FairQueue *q, uint64_t ns) {
        FairNode *n;
        uint32_t i = 0;

        DL_FOREACH(q->running, n) {
                n->slice_used_ns = ns_add(n->slice_used_ns, ns);
                if (!q->waiting.root)
                        continue;

                uint64_t d = i++ < q->n_full ? fair_cost(ns, q->weight_left, q->slots_left)
                                             : fair_cost(ns, n->weight, 1);
                n->vtime += d;
                q->sum += (fair_wide_t) n->weight * d;
        }
}

/* How long the runner keeps its place before `next`; 0: not any longer. */
static uint64_t fair_node_left(const FairNode *n, const FairNode *next, uint64_t slice_ns) {
        uint64_t left = ns_sub(slice_ns, n->slice_used_ns);
        int64_t ahead = fair_ahead(n->vtime, next->vtime);

        if (ahead < 0)
                return MAX(left, fair_time((uint64_t) -ahead, n->weight));
        return MIN(left, ns_sub(slice_ns, fair_time((uint64_t) ahead, n->weight)));
}

/* The heaviest runners are full as long as one is worth more than an equal part of what is left. */
static void fair_queue_find_full(FairQueue *q, uint32_t slots) {
        FairNode *n;

        q->n_full = 0;
        q->slots_left = slots;
        q->weight_left = q->weight;
        DL_FOREACH(q->running, n) {
                if (q->slots_left == 1 || (uint64_t) n->weight * q->slots_left <= q->weight_left)
                        break;
                q->n_full++;
                q->slots_left--;
                q->weight_left -= n->weight;
        }
}

/* The runner that has had most, of those whose place is due to `next` (NULL: of all). */
static FairNode *fair_queue_find_due(const FairQueue *q, const FairNode *next, uint64_t slice_ns) {
        FairNode *n, *due = NULL;
        uint32_t i = 0;

        DL_FOREACH(q->running, n) {
                if (next && (i++ < q->n_full || fair_node_left(n, next, slice_ns) > 0))
                        continue;
                if (!due || fair_ahead(n->vtime, due->vtime) > 0)
                        due = n;
        }
        return due;
}

static void fair_queue_stop(FairQueue *q, FairNode *n) {
        fair_queue_take(q, n);
        fair_queue_wait(q, n);
}

static void fair_queue_start(FairQueue *q, FairNode *n) {
        fair_queue_take(q, n);
        n->slice_used_ns = 0;
        fair_queue_run(q, n);
}

void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairNode *next, *due;

        while (q->n_running > slots)
                fair_queue_stop(q, fair_queue_find_due(q, NULL, slice_ns));
        while (q->n_running < slots && (next = fair_node_of(q->waiting.root)))
                fair_queue_start(q, next);

        /* Ends after `slots` turns at most: who has just started is not ahead of anybody that waits. */
        while ((next = fair_node_of(q->waiting.root))) {
                fair_queue_find_full(q, slots);
                due = fair_queue_find_due(q, next, slice_ns);
                if (!due)
                        break;
                fair_queue_start(q, next);
                fair_queue_stop(q, due);
        }
}

uint64_t fair_queue_left(const FairQueue *q, uint64_t slice_ns) {
        const FairNode *n, *next = fair_node_of(q->waiting.root);
        uint64_t left = NSEC_INFINITY;
        uint32_t i = 0;

        if (!next)
                return NSEC_INFINITY;
        DL_FOREACH(q->running, n)
                if (i++ >= q->n_full)
                        left = MIN(left, fair_node_left(n, next, slice_ns));
        return left;
}
