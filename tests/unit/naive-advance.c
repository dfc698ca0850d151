/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle: grants of idle entities, in advance and standing
 */

#include "naive-fair.h"

int naive_highest(const Policy *p) {
        int t = -1;

        FOR_EACH(p, e)
                t = MAX(t, e->tier);
        return t;
}

bool naive_is_recent(const PolicyEntity *e) {
        size_t before = 0;

        FOR_EACH(e->p, o)
                before += !o->ready && o->tier == e->tier && o->idle_order > e->idle_order;
        return before < POLICY_ADVANCE_MAX;
}

bool naive_is_advanced(const PolicyEntity *e) {
        size_t taken = 0;

        if (e->p->n_missed[e->tier] >= POLICY_ADVANCE_MISSES)
                return false;
        FOR_EACH(e->p, o)
                taken += o->chosen && o->tier == e->tier && !naive_has_turn(o);
        if (e->tier == e->p->active && taken >= e->p->slots && e->p->now < e->p->contended_until[e->tier])
                return false;
        if (e->ready || e->draining || e->tier != naive_highest(e->p) || naive_is_stopped(e->node) ||
                        e->tier < e->p->outside)
                return false;
        return naive_is_recent(e);
}

static bool is_claimed_by_others(const PolicyEntity *e) {
        Policy *p = e->p;
        bool guarantees = false;

        FOR_EACH_NODE(p, n)
        guarantees = guarantees || n->settings.min > 0;
        return e->tier != naive_highest(p) || e->tier < p->outside || (guarantees && p->n > 1) ||
                        naive_is_limited(e->node);
}

bool naive_is_claimed(const PolicyEntity *e) {
        size_t n_equals = 0;

        FOR_EACH(e->p, o)
                n_equals += o->tier == e->tier;
        return (n_equals > 1 && e->p->now < e->p->contended_until[e->tier]) || is_claimed_by_others(e);
}

void naive_end_standing(Policy *p) {
        FOR_EACH(p, e)
                e->stands = false;
}

bool naive_may_stand(const PolicyEntity *e) {
        size_t n_equals = 0;

        FOR_EACH(e->p, o)
                n_equals += o->tier == e->tier;
        return !e->ready && !e->draining && n_equals > POLICY_ADVANCE_MAX &&
                        e->p->now >= e->p->crowded_until[e->tier] && !is_claimed_by_others(e);
}
