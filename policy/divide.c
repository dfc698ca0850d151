/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Divide
 */

#include <errno.h>

#include "divide.h"
#include "order.h"

/* Number of times that an interval is halved: parts are exact to 2^-40. */
#define STEPS 40U

bool policy_divides(const PolicyOps *ops) {
        const OrderOps *o = ops->ordering;

        return !o->ranked && !o->parties && !o->enqueue && !o->charge && !o->tick;
}

static int level_of(const OrderOps *ordering, const PolicySettings *s) {
        const PolicyConfig config = POLICY_CONFIG_DEFAULT;
        Order o = {.config = &config};
        OrderEntity e = {.settings = s, .budget_ns = NSEC_INFINITY, .alarm_ns = NSEC_INFINITY};

        ordering->hint(&o, &e);
        return e.level;
}

static uint32_t weight_of(const OrderOps *ordering, const DivideItem *i) {
        uint32_t weight = POLICY_WEIGHT_DEFAULT;

        if (i->is_node && ordering->node_weight)
                weight = ordering->node_weight(&i->node);
        else if (!i->is_node && ordering->weight)
                weight = ordering->weight(&i->entity);
        return CLAMP(weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX);
}

static double max_of(const DivideItem *i, double places) {
        return i->is_node && i->node.max > 0 ? MIN((double) i->node.max / 100, places) : places;
}

/* Sets the number of places that each item can use by its entities down to this level, and the number that it is
 * guaranteed. */
static void bound(DivideItem *items, size_t n, double places, int level) {
        for (size_t k = 0; k < n; k++) {
                DivideItem *i = items + k;

                i->takes_part = !i->is_node && i->level == level;
                i->most = !i->is_node && i->level >= level ? 1 : 0;
        }
        for (size_t k = n; k-- > 0;) {
                DivideItem *i = items + k;

                i->most = MIN(i->most, max_of(i, places));
                i->most = MAX(i->most, i->least);
                if (i->parent != DIVIDE_ROOT) {
                        items[i->parent].most += i->most;
                        items[i->parent].takes_part |= i->takes_part;
                }
        }
}

/* Sums up guarantees: what is guaranteed below a node is guaranteed to the node as well. An item has at most one place
 * for each entity below it. */
static void guarantee(DivideItem *items, size_t n, double places) {
        for (size_t k = 0; k < n; k++) {
                items[k].least = 0;
                items[k].most = items[k].is_node ? 0 : 1;
        }
        for (size_t k = n; k-- > 0;) {
                DivideItem *i = items + k;

                i->most = MIN(i->most, max_of(i, places));
                if (i->is_node)
                        i->least = MAX(i->least, (double) i->node.min / 100);
                i->least = MIN(i->least, i->most);
                if (i->parent != DIVIDE_ROOT) {
                        items[i->parent].most += i->most;
                        items[i->parent].least += i->least;
                }
        }
}

/* The time that the item has when each unit of weight gets `each` of this tier. */
static double at(const DivideItem *i, double each) {
        if (!i->takes_part)
                return MAX(i->had, i->least);
        return CLAMP(i->had + each * i->weight, i->least, i->most);
}

static double sum_at(const DivideItem *items, size_t first, double each) {
        double sum = 0;

        for (size_t k = first; k != DIVIDE_ROOT; k = items[k].beside)
                sum += at(items + k, each);
        return sum;
}

/* Divides `amount` among `first` and its siblings. */
static void divide_among(DivideItem *items, size_t first, double amount) {
        double low = 0, high = 0;

        for (size_t k = first; k != DIVIDE_ROOT; k = items[k].beside)
                high = MAX(high, items[k].most / items[k].weight);
        if (sum_at(items, first, high) <= amount)
                low = high;
        for (unsigned step = 0; low < high && step < STEPS; step++) {
                double each = (low + high) / 2;

                if (sum_at(items, first, each) > amount)
                        high = each;
                else
                        low = each;
        }
        /* Guarantees may exceed the amount: then each gets its part. */
        double sum = sum_at(items, first, low);
        for (size_t k = first; k != DIVIDE_ROOT; k = items[k].beside)
                items[k].has = at(items + k, low) * (sum > amount ? amount / sum : 1);
}

/* Returns the part of the time that this tier, and those above it, leave to lower ones. */
static double left(const DivideItem *items, size_t n, double places, int level) {
        double sum = 0, used = 0;

        for (size_t k = 0; k < n; k++)
                if (!items[k].is_node && items[k].level >= level) {
                        sum += items[k].has;
                        used = MAX(used, items[k].has);
                }
        used = MAX(used, sum / places);
        return used < 1 ? 1 - used : 0;
}

/* The highest level below `than`; POLICY_LEVEL_NONE: there is none. */
static int next_level(const DivideItem *items, size_t n, int than) {
        int level = POLICY_LEVEL_NONE;

        for (size_t k = 0; k < n; k++)
                if (!items[k].is_node && items[k].level < than)
                        level = MAX(level, items[k].level);
        return level;
}

int divide_begin(Divide *d, const PolicyOps *ops, uint32_t concurrency, DivideItem *items, size_t n) {
        double places = MAX(concurrency, 1U);

        if (!policy_divides(ops))
                return -EINVAL;
        *d = (Divide){
                        .items = items,
                        .n = n,
                        .first = DIVIDE_ROOT,
                        .places = places,
                        .amount = places,
                        .level = POLICY_PRIORITY_MAX + 1,
        };
        for (size_t k = 0; k < n; k++) {
                DivideItem *i = items + k;

                i->level = i->is_node ? POLICY_LEVEL_NONE : level_of(ops->ordering, &i->entity);
                i->weight = weight_of(ops->ordering, i);
                i->had = i->has = i->part = 0;
                i->below = DIVIDE_ROOT;
                size_t *list = i->parent == DIVIDE_ROOT ? &d->first : &items[i->parent].below;
                i->beside = *list;
                *list = k;
        }
        guarantee(items, n, places);
        return 0;
}

bool divide_tier(Divide *d) {
        DivideItem *items = d->items;

        d->level = next_level(items, d->n, d->level);
        if (d->level == POLICY_LEVEL_NONE)
                return false;
        bound(items, d->n, d->places, d->level);
        divide_among(items, d->first, d->amount);
        for (size_t k = 0; k < d->n; k++)
                divide_among(items, items[k].below, items[k].has);
        double rest = left(items, d->n, d->places, d->level);
        d->amount = 0;
        for (size_t k = 0; k < d->n; k++) {
                DivideItem *i = items + k;

                /* A part that was given for a guarantee alone may come by weight in a lower tier. */
                if (i->takes_part || i->had > 0)
                        i->had = i->has;
                if (i->parent == DIVIDE_ROOT)
                        d->amount += i->has;
                i->part = i->has / d->places;
        }
        d->amount = MIN(d->places, d->amount + rest * d->places);
        return rest * d->places >= 1e-9;
}
