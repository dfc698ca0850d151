/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weighted fair virtual time; the rules and their reasons stand in fair.h.
 */

#include <utlist.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "fair.h"

/* The first `n` runners are full; slots and weight that they leave to the rest. */
typedef struct FairFull {
        uint32_t n, slots_left;
        uint64_t weight_left;
} FairFull;

/* Positive: a is ahead of (has had more than) b. */
static int64_t fair_ahead(uint64_t a, uint64_t b) {
        return (int64_t) (a - b);
}

static FairNode *fair_node_of(AvlNode *n) {
        return n ? container_of(n, FairNode, order) : NULL;
}

static bool fair_before(uint64_t x, uint64_t x_seq, uint64_t y, uint64_t y_seq) {
        int64_t d = fair_ahead(x, y);

        return d < 0 || (d == 0 && x_seq < y_seq);
}

static bool fair_node_before(const AvlNode *a, const AvlNode *b) {
        const FairNode *x = container_of(a, FairNode, order), *y = container_of(b, FairNode, order);

        return fair_before(x->vtime, x->seq, y->vtime, y->seq);
}

/* The one with the earlier deadline; either may be NULL. */
static FairNode *fair_node_first(FairNode *x, FairNode *y) {
        if (!x || !y)
                return x ?: y;
        return fair_before(x->deadline, x->seq, y->deadline, y->seq) ? x : y;
}

static void fair_node_update(AvlNode *n) {
        FairNode *f = fair_node_of(n), *left = fair_node_of(n->left), *right = fair_node_of(n->right);

        f->first = fair_node_first(f, left ? left->first : NULL);
        f->first = fair_node_first(f->first, right ? right->first : NULL);
}

/* ns of run time on that many slots, as virtual time. */
static uint64_t fair_cost(uint64_t ns, uint64_t weight, uint64_t slots) {
        return (uint64_t) ((fair_wide_t) MIN(ns, FAIR_STEP_MAX) * (fair_wide_t) (FAIR_SCALE * slots) /
                        (fair_wide_t) weight);
}

static int64_t fair_lag_max(const FairNode *n, uint64_t slice_ns) {
        return (int64_t) fair_cost(slice_ns, n->weight, FAIR_LAG_SLICES);
}

/* V, rounded down. Moves the origin there, which keeps the sum small. */
static uint64_t fair_queue_vtime(FairQueue *q) {
        if (q->weight > 0) {
                fair_wide_t d = q->sum / (fair_wide_t) q->weight;

                if (d * (fair_wide_t) q->weight > q->sum)
                        d--;
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

/* Its virtual time and its deadline stand still while it waits. */
static void fair_queue_put(FairQueue *q, FairNode *n) {
        n->state = FAIR_WAITING;
        n->deadline = n->vtime + fair_cost(n->left_ns, n->weight, 1);
        avl_insert(&q->waiting, &n->order);
}

static void fair_queue_wait(FairQueue *q, FairNode *n) {
        n->seq = q->seq++;
        fair_queue_put(q, n);
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

/* Out of the tree or the list, whichever it is in. */
static void fair_queue_take(FairQueue *q, FairNode *n) {
        if (n->state == FAIR_RUNNING) {
                DL_DELETE(q->running, n);
                q->n_running--;
        } else
                avl_remove(&q->waiting, &n->order);
}

void fair_queue_init(FairQueue *q) {
        *q = (FairQueue){.waiting = {.before = fair_node_before, .update = fair_node_update}};
}

void fair_node_init(FairNode *n, uint32_t weight) {
        *n = (FairNode){.weight = weight};
}

static void fair_queue_recall(FairQueue *q, FairNode *n) {
        n->state = FAIR_AWAY;
        q->sum += (fair_wide_t) n->weight * n->lag;
        DL_DELETE(q->away, n);
        q->n_away--;
}

void fair_queue_forget(FairQueue *q, FairNode *n) {
        if (n->state == FAIR_REMEMBERED)
                fair_queue_recall(q, n);
        n->lag = 0;
}

/* Its lag is part of the sum from now on, and V does not feel that it left. */
static void fair_queue_remember(FairQueue *q, FairNode *n) {
        if (q->n_away >= FAIR_REMEMBER_MAX)
                fair_queue_forget(q, q->away);
        n->state = FAIR_REMEMBERED;
        n->left_clock_ns = q->clock_ns;
        q->sum -= (fair_wide_t) n->weight * n->lag;
        DL_APPEND(q->away, n);
        q->n_away++;
}

void fair_queue_join(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        n->vtime = fair_queue_vtime(q) - (uint64_t) n->lag;
        if (n->state == FAIR_REMEMBERED)
                fair_queue_recall(q, n);
        n->left_ns = slice_ns;
        fair_queue_add(q, n);
        fair_queue_wait(q, n);
}

void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        int64_t lag = fair_ahead(fair_queue_vtime(q), n->vtime), most = fair_lag_max(n, slice_ns);

        fair_queue_take(q, n);
        fair_queue_subtract(q, n);
        n->lag = CLAMP(lag, -most, most);
        fair_queue_remember(q, n);
}

void fair_node_move(FairNode *n, FairQueue *from, FairQueue *to) {
        if (n->state != FAIR_REMEMBERED)
                return;
        fair_queue_recall(from, n);
        fair_queue_remember(to, n);
}

static void fair_node_reweight_away(FairQueue *q, FairNode *n, uint32_t weight) {
        if (n->state == FAIR_REMEMBERED)
                q->sum += (fair_wide_t) n->weight * n->lag;
        n->lag = (int64_t) ((fair_wide_t) n->lag * n->weight / weight);
        n->weight = weight;
        if (n->state == FAIR_REMEMBERED)
                q->sum -= (fair_wide_t) n->weight * n->lag;
}

void fair_queue_reweight(FairQueue *q, FairNode *n, uint32_t weight) {
        FairState state = n->state;
        uint64_t v = fair_queue_vtime(q);

        if (state == FAIR_AWAY || state == FAIR_REMEMBERED) {
                fair_node_reweight_away(q, n, weight);
                return;
        }
        fair_queue_take(q, n);
        fair_queue_subtract(q, n);
        n->vtime = v + (uint64_t) ((fair_wide_t) fair_ahead(n->vtime, v) * n->weight / weight);
        n->weight = weight;
        fair_queue_add(q, n);
        if (state == FAIR_RUNNING)
                fair_queue_run(q, n);
        else
                fair_queue_put(q, n);
}

/* The heaviest runners are full as long as one is worth more than an equal part of what is left. The last slot is always
 * left to the rest. */
static FairFull fair_queue_find_full(const FairQueue *q, uint32_t slots) {
        FairFull f = {.slots_left = slots, .weight_left = q->weight};
        const FairNode *n;

        DL_FOREACH(q->running, n) {
                if (f.slots_left == 1 || (uint64_t) n->weight * f.slots_left <= f.weight_left)
                        break;
                f.n++;
                f.slots_left--;
                f.weight_left -= n->weight;
        }
        return f;
}

void fair_queue_advance(FairQueue *q, uint32_t slots, uint64_t ns) {
        FairFull full = fair_queue_find_full(q, slots);
        bool contended = fair_queue_n_waiting(q) > 0;
        FairNode *n;
        uint32_t i = 0;

        q->clock_ns += ns;
        DL_FOREACH(q->running, n) {
                n->left_ns = ns_sub(n->left_ns, ns);
                if (!contended)
                        continue;

                uint64_t d = i++ < full.n ? fair_cost(ns, full.weight_left, full.slots_left)
                                          : fair_cost(ns, n->weight, 1);
                n->vtime += d;
                q->sum += (fair_wide_t) n->weight * d;
        }
}

/* A runner whose slice is used up competes with its next one. */
static uint64_t fair_node_deadline(const FairNode *n, uint64_t slice_ns) {
        return n->vtime + fair_cost(n->left_ns > 0 ? n->left_ns : slice_ns, n->weight, 1);
}

/* Must the runner give its place to `next`, which is eligible? */
static bool fair_node_is_due(const FairNode *n, const FairNode *next, uint64_t v, uint64_t slice_ns) {
        int64_t later = fair_ahead(fair_node_deadline(n, slice_ns), next->deadline);

        if (n->left_ns > 0)
                return later > 0;
        return later >= 0 || fair_ahead(n->vtime, v) > 0;
}

/* The runner with the latest deadline, of those that are due to `next` (NULL: of all). */
static FairNode *fair_queue_find_due(FairQueue *q, const FairNode *next, uint32_t slots, uint64_t slice_ns) {
        FairFull full = fair_queue_find_full(q, slots);
        uint64_t v = fair_queue_vtime(q);
        FairNode *n, *due = NULL;
        uint32_t i = 0;

        DL_FOREACH(q->running, n) {
                if (next && (i++ < full.n || !fair_node_is_due(n, next, v, slice_ns)))
                        continue;
                if (!due ||
                                fair_ahead(fair_node_deadline(n, slice_ns),
                                                fair_node_deadline(due, slice_ns)) > 0)
                        due = n;
        }
        return due;
}

static void fair_queue_stop(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        if (n->left_ns == 0)
                n->left_ns = slice_ns;
        fair_queue_take(q, n);
        fair_queue_wait(q, n);
}

static void fair_queue_start(FairQueue *q, FairNode *n) {
        fair_queue_take(q, n);
        fair_queue_run(q, n);
}

/* The waiting one with the earliest deadline among those that V has reached; NULL when it has reached nobody. Those are a
 * prefix of the tree, so that one way down meets the tops of all subtrees that lie in it whole. */
static FairNode *fair_queue_eligible(FairQueue *q) {
        uint64_t v = fair_queue_vtime(q);
        FairNode *n = fair_node_of(q->waiting.root), *first = NULL;

        while (n) {
                FairNode *left = fair_node_of(n->order.left);

                if (fair_ahead(n->vtime, v) > 0) {
                        n = left;
                        continue;
                }
                first = fair_node_first(first, n);
                first = fair_node_first(first, left ? left->first : NULL);
                n = fair_node_of(n->order.right);
        }
        return first;
}

/* Fills free slots; with whoever is least early if nobody is eligible, for a slot must not stay empty. */
static void fair_queue_fill(FairQueue *q, uint32_t slots) {
        FairNode *n;

        while (q->n_running < slots && (n = fair_queue_eligible(q) ?: fair_node_of(avl_first(&q->waiting))))
                fair_queue_start(q, n);
}

void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairNode *next, *due, *n;

        while (q->away && q->clock_ns - q->away->left_clock_ns > FAIR_MEMORY_SLICES * slice_ns)
                fair_queue_forget(q, q->away);
        while (q->n_running > slots)
                fair_queue_stop(q, fair_queue_find_due(q, NULL, slots, slice_ns), slice_ns);
        fair_queue_fill(q, slots);

        /* Ends: each turn removes a used-up slice or a later deadline from the runners. */
        while ((next = fair_queue_eligible(q)) && (due = fair_queue_find_due(q, next, slots, slice_ns))) {
                fair_queue_start(q, next);
                fair_queue_stop(q, due, slice_ns);
        }

        /* Who was preferred to others that could have run begins another slice; without such others it goes on until one
         * comes up. */
        if (next)
                DL_FOREACH(q->running, n)
                        if (n->left_ns == 0)
                                n->left_ns = slice_ns;
}

/* When V reaches the first early one: the distance, over the rate at which the runners' advance carries V. */
static uint64_t fair_queue_until_eligible(const FairQueue *q, const FairFull *full) {
        const FairNode *first = fair_node_of(avl_first(&q->waiting));
        fair_wide_t distance =
                        (fair_wide_t) fair_ahead(first->vtime, q->origin) * (fair_wide_t) q->weight - q->sum;
        fair_wide_t weight_full = (fair_wide_t) (q->weight - full->weight_left);
        fair_wide_t weight_left = (fair_wide_t) full->weight_left;
        fair_wide_t rate = FAIR_SCALE *
                        ((q->n_running - full->n) * weight_left + weight_full * full->slots_left);

        return (uint64_t) ((distance * weight_left + rate - 1) / rate);
}

uint64_t fair_queue_left(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairFull full = fair_queue_find_full(q, slots);
        const FairNode *n;
        uint64_t left = NSEC_INFINITY, eligible;
        uint32_t i = 0;

        if (fair_queue_n_waiting(q) == 0)
                return NSEC_INFINITY;
        DL_FOREACH(q->running, n)
                if (i++ >= full.n)
                        left = MIN(left, n->left_ns);
        if (fair_queue_eligible(q))
                return left;
        eligible = fair_queue_until_eligible(q, &full);
        eligible = MAX(eligible, (uint64_t) 1); /* what rounding left */
        return MAX(left, eligible);
}
