/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Place: puts entities into their lists and queues
 */

#include <utlist.h>

#include "drain.h"
#include "keep.h"
#include "node.h"
#include "place.h"
#include "rank.h"
#include "standing.h"
#include "tier.h"

void entity_idle_begin(PolicyEntity *e) {
        DL_PREPEND2(e->branch->tier->idle, e, idle_prev, idle_next);
}

void entity_idle_end(PolicyEntity *e) {
        DL_DELETE2(e->branch->tier->idle, e, idle_prev, idle_next);
}

void entity_note_advance(const PolicyEntity *e) {
        Tier *t = e->branch->tier;
        const PolicyEntity *other;
        size_t n = 0;

        DL_FOREACH2(t->idle, other, idle_next) {
                if (other == e) {
                        t->n_missed = 0;
                        return;
                }
                if (++n >= POLICY_ADVANCE_MAX)
                        break;
        }
        t->n_missed = MIN(t->n_missed + 1, POLICY_ADVANCE_MISSES);
}

static void entity_join_ranked(PolicyEntity *e) {
        e->fair.vtime = e->order.rank;
        e->fair.seq = e->policy->rank_seq++;
        rank_queue_join(&e->branch->fair, &e->fair, 1);
}

void entity_join(PolicyEntity *e) {
        e->left_ns = e->order.budget_ns;
        if (e->branch->tier->ranked)
                entity_join_ranked(e);
        else
                fair_queue_join(&e->branch->fair, &e->fair, 1, tier_slice(e->branch->tier));
        branch_changed(e->branch);
}

void entity_leave(PolicyEntity *e) {
        if (e->branch->tier->ranked)
                rank_queue_leave(&e->branch->fair, &e->fair);
        else
                fair_queue_leave(&e->branch->fair, &e->fair, tier_slice(e->branch->tier));
        branch_changed(e->branch);
}

void tier_add(Tier *t) {
        t->n_entities++;
        core_note_tier(t);
}

void tier_subtract(Tier *t) {
        t->n_entities--;
        core_note_tier(t);
}

void entity_forget_fair(PolicyEntity *e) {
        if (!e->branch->tier->ranked)
                fair_queue_forget(&e->branch->fair, &e->fair);
}

void entity_choose(PolicyEntity *e) {
        Policy *p = e->policy;

        e->chosen = true;
        DL_APPEND2(p->chosen, e, chosen_prev, chosen_next);
        node_count_chosen(e->node, true);
}

void entity_unchoose(PolicyEntity *e) {
        Policy *p = e->policy;

        if (!e->chosen)
                return;
        if (e->awaits_tail)
                entity_set_awaits_tail(e, false);
        e->chosen = false;
        DL_DELETE2(p->chosen, e, chosen_prev, chosen_next);
        node_count_chosen(e->node, false);
}

void entity_change_branch(PolicyEntity *e, Branch *to) {
        Branch *from = e->branch;

        entity_stand_end(e);
        if (e->kept)
                entity_keep_drop(e);
        entity_unchoose(e);
        if (e->ready)
                entity_leave(e);
        else
                entity_idle_end(e);
        if (to->tier->ranked)
                entity_forget_fair(e);
        else if (!from->tier->ranked)
                fair_node_move(&e->fair, &from->fair, &to->fair);
        tier_subtract(from->tier);
        tier_add(to->tier);
        e->branch = to;
        if (e->ready)
                entity_join(e);
        else
                entity_idle_begin(e);
        branch_put(from);
}
