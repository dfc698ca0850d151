/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weighted fair virtual time: fair.h has the rules and their reasons.
 */

#include <utlist.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "fair.h"

/* The slots and the weight that full runners leave to the other nodes, and the places that these use. */
typedef struct FairFull {
        uint32_t slots_left, used_left;
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

/* Returns the one with the earlier deadline; either may be NULL. */
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

/* Divides by 64 bits where that is enough, which it nearly always is: it takes a tenth of the time. */
static fair_wide_t fair_divide(fair_wide_t sum, uint64_t by) {
        if (likely(sum >= INT64_MIN && sum <= INT64_MAX && by <= INT64_MAX))
                return (int64_t) sum / (int64_t) by;
        return sum / (fair_wide_t) by;
}

/* Converts ns of run time on that many slots to virtual time. */
static uint64_t fair_cost(uint64_t ns, uint64_t weight, uint64_t slots) {
        return (uint64_t) fair_divide(
                        (fair_wide_t) MIN(ns, FAIR_STEP_MAX) * (fair_wide_t) (FAIR_SCALE * slots), weight);
}

static int64_t fair_lag_max(const FairNode *n, uint64_t slice_ns) {
        return (int64_t) fair_cost(slice_ns, n->weight, FAIR_LAG_SLICES);
}

static int64_t fair_debt_max(const FairNode *n, uint64_t slice_ns) {
        int64_t lag = fair_lag_max(n, slice_ns), debt = (int64_t) fair_cost(FAIR_DEBT_MAX, n->weight, 1);

        return MAX(lag, debt);
}

/* V, rounded down. Moves the origin there, which keeps the sum small. It is there already where no time has passed
 * since the last call, which comes several times in an event. */
static uint64_t fair_queue_vtime(FairQueue *q) {
        if (q->weight > 0 && (q->sum < 0 || q->sum >= (fair_wide_t) q->weight)) {
                fair_wide_t d = fair_divide(q->sum, q->weight);

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
        q->squares += (uint64_t) n->weight * n->weight;
        q->n_here++;
}

static void fair_queue_subtract(FairQueue *q, const FairNode *n) {
        q->sum -= (fair_wide_t) n->weight * fair_ahead(n->vtime, q->origin);
        q->weight -= n->weight;
        q->squares -= (uint64_t) n->weight * n->weight;
        q->n_here--;
}

/* The node's virtual time and deadline do not change while it is in the tree. */
static void fair_queue_wait(FairQueue *q, FairNode *n) {
        n->deadline = n->vtime + fair_cost(n->left_ns, n->weight, 1);
        avl_insert(&q->waiting, &n->order);
}

/* Whether one place of `a` weighs less than one of `b`. */
static bool fair_node_is_lighter(const FairNode *a, const FairNode *b) {
        return (uint64_t) a->weight * b->places < (uint64_t) b->weight * a->places;
}

static void fair_queue_run(FairQueue *q, FairNode *n) {
        FairNode *lighter;

        DL_FOREACH(q->running, lighter)
                if (fair_node_is_lighter(lighter, n))
                        break;
        if (lighter)
                DL_PREPEND_ELEM(q->running, lighter, n);
        else
                DL_APPEND(q->running, n);
}

/* Put the node into the tree of waiting nodes or the list of runners, and take it out. */
static void fair_queue_put(FairQueue *q, FairNode *n) {
        if (n->used > 0)
                fair_queue_run(q, n);
        else
                fair_queue_wait(q, n);
}

static void fair_queue_take(FairQueue *q, FairNode *n) {
        if (n->used > 0)
                DL_DELETE(q->running, n);
        else
                avl_remove(&q->waiting, &n->order);
}

static void fair_queue_use(FairQueue *q, FairNode *n, uint32_t used) {
        q->used += used - n->used;
        n->used = used;
}

/* Whether the node runs, and could use one more place. */
static bool fair_node_wants(const FairNode *n) {
        return n->used < n->places;
}

static bool fair_queue_is_contended(const FairQueue *q) {
        return q->used < q->places;
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

/* From here on its lag is part of the sum, so that V does not change when it leaves. */
static void fair_queue_remember(FairQueue *q, FairNode *n) {
        if (q->away && q->n_away >= FAIR_REMEMBER_MAX)
                fair_queue_forget(q, q->away);
        n->state = FAIR_REMEMBERED;
        n->left_clock_ns = q->clock_ns;
        q->sum -= (fair_wide_t) n->weight * n->lag;
        DL_APPEND(q->away, n);
        q->n_away++;
}

void fair_queue_join(FairQueue *q, FairNode *n, uint32_t places, uint64_t slice_ns) {
        n->vtime = fair_queue_vtime(q) - (uint64_t) n->lag;
        if (n->state == FAIR_REMEMBERED)
                fair_queue_recall(q, n);
        n->state = FAIR_HERE;
        n->left_ns = slice_ns;
        n->seq = q->seq++;
        n->places = places;
        n->used = 0;
        q->places += places;
        fair_queue_add(q, n);
        fair_queue_wait(q, n);
}

void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        int64_t lag = fair_ahead(fair_queue_vtime(q), n->vtime), most = fair_lag_max(n, slice_ns);

        fair_queue_take(q, n);
        fair_queue_use(q, n, 0);
        q->places -= n->places;
        fair_queue_subtract(q, n);
        n->lag = CLAMP(lag, -fair_debt_max(n, slice_ns), most);
        fair_queue_remember(q, n);
}

void fair_queue_set_places(FairQueue *q, FairNode *n, uint32_t places) {
        fair_queue_take(q, n);
        q->places += places - n->places;
        n->places = places;
        fair_queue_use(q, n, MIN(n->used, places));
        fair_queue_put(q, n);
}

/* Charges a node that is away. */
static void fair_queue_charge_away(FairQueue *q, FairNode *n, int64_t cost, int64_t most) {
        int64_t lag = MAX(n->lag - cost, -most);

        lag = MIN(lag, n->lag); /* an earlier debt stays */
        q->sum += (fair_wide_t) n->weight * (n->lag - lag);
        n->lag = lag;
}

void fair_queue_charge(FairQueue *q, FairNode *n, uint64_t ns, uint64_t slice_ns) {
        int64_t cost = (int64_t) fair_cost(ns, n->weight, 1), most = fair_lag_max(n, slice_ns), room;

        if (n->state == FAIR_REMEMBERED)
                fair_queue_charge_away(q, n, cost, most);
        if (n->state != FAIR_HERE)
                return;

        room = most - fair_ahead(n->vtime, fair_queue_vtime(q));
        cost = CLAMP(room, (int64_t) 0, cost);
        fair_queue_take(q, n);
        n->vtime += (uint64_t) cost;
        q->sum += (fair_wide_t) n->weight * cost;
        fair_queue_put(q, n);
}

/* Remembers the node's lag from this charge on, as if it had left now. */
static void fair_queue_recall_to_charge(FairQueue *q, FairNode *n) {
        if (n->state == FAIR_REMEMBERED)
                fair_queue_recall(q, n);
        fair_queue_remember(q, n);
}

void fair_queue_charge_tail(FairQueue *q, FairNode *n, uint64_t ns, uint64_t slice_ns) {
        int64_t cost = (int64_t) fair_cost(ns, n->weight, 1);

        if (n->state != FAIR_HERE) {
                fair_queue_recall_to_charge(q, n);
                fair_queue_charge_away(q, n, cost, fair_debt_max(n, slice_ns));
                return;
        }
        fair_queue_take(q, n);
        n->vtime += (uint64_t) cost;
        q->sum += (fair_wide_t) n->weight * cost;
        fair_queue_put(q, n);
}

int64_t fair_queue_lag(FairQueue *q, const FairNode *n) {
        return (int64_t) fair_divide((fair_wide_t) fair_ahead(fair_queue_vtime(q), n->vtime) * n->weight, FAIR_SCALE);
}

/* The square of a sum is n times the sum of the squares for equal ones only. */
bool fair_queue_is_even(const FairQueue *q) {
        return (fair_wide_t) q->weight * (fair_wide_t) q->weight == (fair_wide_t) q->n_here * (fair_wide_t) q->squares;
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
        uint64_t v = fair_queue_vtime(q);

        if (n->state != FAIR_HERE) {
                fair_node_reweight_away(q, n, weight);
                return;
        }
        fair_queue_take(q, n);
        fair_queue_subtract(q, n);
        n->vtime = v + (uint64_t) ((fair_wide_t) fair_ahead(n->vtime, v) * n->weight / weight);
        n->weight = weight;
        fair_queue_add(q, n);
        fair_queue_put(q, n);
}

/* The heaviest runners are full as long as they are worth more than an equal part of what is left. The last slot is
 * always left to the rest. A runner that waits for more is not full: it becomes full, within a slice, by getting
 * more. */
static FairFull fair_queue_find_full(FairQueue *q, uint32_t slots) {
        FairFull f = {.slots_left = slots, .used_left = q->used, .weight_left = q->weight};
        bool all = true;
        FairNode *n;

        DL_FOREACH(q->running, n) {
                n->full = false;
                all = all && f.slots_left > n->places &&
                                (uint64_t) n->weight * f.slots_left > f.weight_left * n->places;
                if (!all || fair_node_wants(n))
                        continue;
                n->full = true;
                f.slots_left -= n->places;
                f.used_left -= n->used;
                f.weight_left -= n->weight;
        }
        return f;
}

void fair_queue_advance(FairQueue *q, uint32_t slots, uint64_t ns) {
        FairFull full = fair_queue_find_full(q, slots);
        FairNode *n;

        q->clock_ns += ns;
        DL_FOREACH(q->running, n) {
                uint32_t used = n->used - n->blocked;

                n->left_ns = ns_sub(n->left_ns, ns * used);
                if (!fair_queue_is_contended(q) || used == 0)
                        continue;

                uint64_t d = n->full ? fair_cost(ns, full.weight_left, full.slots_left)
                                     : fair_cost(ns, n->weight, used);
                n->vtime += d;
                q->sum += (fair_wide_t) n->weight * d;
        }
}

/* The deadline of a runner with a used-up slice is that of its next slice. */
static uint64_t fair_node_deadline(const FairNode *n, uint64_t slice_ns) {
        return n->vtime + fair_cost(n->left_ns > 0 ? n->left_ns : slice_ns, n->weight, 1);
}

/* Whether the runner must give its place to `next`, which is eligible. */
static bool fair_node_is_due(const FairNode *n, const FairNode *next, uint64_t v, uint64_t slice_ns) {
        int64_t later = fair_ahead(fair_node_deadline(n, slice_ns), next->deadline);

        if (n->left_ns > 0)
                return later > 0;
        return later >= 0 || fair_ahead(n->vtime, v) > 0;
}

/* The runner with the latest deadline, of those that are due to `next` (NULL: of all). */
static FairNode *fair_queue_find_due(FairQueue *q, const FairNode *next, uint32_t slots, uint64_t slice_ns) {
        uint64_t v = fair_queue_vtime(q);
        FairNode *n, *due = NULL;

        (void) fair_queue_find_full(q, slots);
        DL_FOREACH(q->running, n) {
                if (next && (n == next || n->full || !fair_node_is_due(n, next, v, slice_ns)))
                        continue;
                if (!due || fair_ahead(fair_node_deadline(n, slice_ns), fair_node_deadline(due, slice_ns)) > 0)
                        due = n;
        }
        return due;
}

/* Takes a place from the node, which then waits behind its equals. */
static void fair_queue_stop(FairQueue *q, FairNode *n, uint64_t slice_ns) {
        if (n->left_ns == 0)
                n->left_ns = slice_ns;
        n->seq = q->seq++;
        if (n->used > 1) {
                fair_queue_use(q, n, n->used - 1);
                return;
        }
        fair_queue_take(q, n);
        fair_queue_use(q, n, 0);
        fair_queue_put(q, n);
}

/* Gives the node one more place. */
static void fair_queue_start(FairQueue *q, FairNode *n) {
        if (n->used > 0) {
                n->seq = q->seq++; /* behind its equals for the next */
                fair_queue_use(q, n, n->used + 1);
                return;
        }
        fair_queue_take(q, n);
        n->seq = q->seq++;
        fair_queue_use(q, n, 1);
        fair_queue_put(q, n);
}

/* Those in the tree that V has reached are a prefix of it, so that one way down meets the tops of all subtrees that lie
 * in it whole. */
static FairNode *fair_queue_eligible_waiting(FairQueue *q, uint64_t v) {
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

/* Of the nodes that V has reached, the one that could use a place and has the earliest deadline; NULL: V has reached
 * none. */
static FairNode *fair_queue_eligible(FairQueue *q, uint64_t slice_ns) {
        uint64_t v = fair_queue_vtime(q);
        FairNode *first = fair_queue_eligible_waiting(q, v), *n;

        DL_FOREACH(q->running, n) {
                if (!fair_node_wants(n) || fair_ahead(n->vtime, v) > 0)
                        continue;
                n->deadline = fair_node_deadline(n, slice_ns);
                first = fair_node_first(first, n);
        }
        return first;
}

/* Returns the node that could use a place and is the least early. */
static FairNode *fair_queue_least_early(FairQueue *q) {
        FairNode *first = fair_node_of(avl_first(&q->waiting)), *n;

        DL_FOREACH(q->running, n)
                if (fair_node_wants(n) && (!first || fair_node_before(&n->order, &first->order)))
                        first = n;
        return first;
}

/* Fills free slots; with the least early node when none is eligible, because a slot must not stay empty. */
static void fair_queue_fill(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairNode *n;

        while (q->used < slots && (n = fair_queue_eligible(q, slice_ns) ?: fair_queue_least_early(q)))
                fair_queue_start(q, n);
}

/* Slices that are used up begin anew. */
static void fair_queue_renew(FairQueue *q, uint64_t slice_ns) {
        FairNode *n;

        DL_FOREACH(q->running, n)
                if (n->left_ns == 0)
                        n->left_ns = slice_ns;
}

void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairNode *next, *due;

        while (q->away && q->clock_ns - q->away->left_clock_ns > FAIR_MEMORY_SLICES * slice_ns)
                fair_queue_forget(q, q->away);
        while (q->used > slots)
                fair_queue_stop(q, fair_queue_find_due(q, NULL, slots, slice_ns), slice_ns);
        fair_queue_fill(q, slots, slice_ns);

        /* Ends: each turn removes a used-up slice or a later deadline from the runners. */
        while ((next = fair_queue_eligible(q, slice_ns)) && (due = fair_queue_find_due(q, next, slots, slice_ns))) {
                fair_queue_start(q, next);
                fair_queue_stop(q, due, slice_ns);
        }

        /* A node that was preferred to others that could have run begins another slice. Without such others it goes on
         * until one comes up. */
        if (next)
                fair_queue_renew(q, slice_ns);
}

/* Returns the time until V reaches the node: its distance, divided by the rate at which the runners move V; less its
 * own rate, if it runs and only wants one more place. */
static uint64_t fair_queue_until(const FairQueue *q, const FairFull *full, const FairNode *n) {
        fair_wide_t weight = (fair_wide_t) q->weight, left = (fair_wide_t) full->weight_left;
        fair_wide_t distance = (fair_wide_t) fair_ahead(n->vtime, q->origin) * weight - q->sum;
        fair_wide_t rate = FAIR_SCALE * (full->used_left * left + (weight - left) * (fair_wide_t) full->slots_left);

        if (n->used == 0)
                return (uint64_t) ((distance * left + rate - 1) / rate);

        rate = rate * n->weight - (fair_wide_t) (FAIR_SCALE * n->used) * weight * left;
        if (rate <= 0)
                return NSEC_INFINITY;
        distance *= left * n->weight;
        return (uint64_t) MIN((distance + rate - 1) / rate, (fair_wide_t) FAIR_STEP_MAX);
}

static uint64_t fair_queue_until_eligible(const FairQueue *q, const FairFull *full) {
        const FairNode *first = fair_node_of(avl_first(&q->waiting)), *n;
        uint64_t until = first ? fair_queue_until(q, full, first) : NSEC_INFINITY;

        DL_FOREACH(q->running, n)
                if (fair_node_wants(n)) {
                        uint64_t t = fair_queue_until(q, full, n);

                        until = MIN(until, t);
                }
        return MAX(until, (uint64_t) 1); /* the rest of the rounding */
}

uint64_t fair_queue_left(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairFull full = fair_queue_find_full(q, slots);
        const FairNode *n;
        uint64_t left = NSEC_INFINITY, eligible;
        bool moves = false;

        /* What is below an only node may wait for more places: there is nobody here to take them from. */
        if (!fair_queue_is_contended(q) || q->n_here == 1)
                return NSEC_INFINITY;
        DL_FOREACH(q->running, n) {
                uint32_t used = n->used - n->blocked;

                moves = moves || used > 0;
                if (!n->full && used > 0) {
                        uint64_t t = DIV_ROUND_UP(n->left_ns, used);

                        left = MIN(left, t);
                }
        }
        if (!moves)
                return NSEC_INFINITY;
        if (fair_queue_eligible(q, slice_ns))
                return left;
        eligible = fair_queue_until_eligible(q, &full);
        return MAX(left, eligible);
}
