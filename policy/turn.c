/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The turn of a minimum
 */

#include "turn.h"
#include "node.h"
#include "tier.h"

void core_end_turn(Policy *p) {
        Branch *b = TAKE_PTR(p->turn);

        p->guaranteed = NULL;
        if (b)
                branch_set_apart(b, false);
}

/* Whether the node needs the turn to run: the rest of its tier takes all places, or a higher tier runs. */
static bool turn_is_needed(Policy *p) {
        const Tier *top = core_highest(p, &p->with_places);

        if (core_is_outranked(p, p->turn->tier))
                return true;
        return top && (top > p->turn->tier || (top == p->turn->tier && top->root.fair.places >= p->config.concurrency));
}

/* The highest branch of the turn with an entity that could run. */
static void turn_set_branch(Policy *p, Branch *b) {
        if (p->turn == b)
                return;
        if (p->turn)
                branch_set_apart(p->turn, false);
        p->turn = b;
        if (b)
                branch_set_apart(b, true);
}

void core_continue_turn(Policy *p) {
        if (p->now_ns < p->turn_until_ns && !node_is_stopped(p->guaranteed))
                turn_set_branch(p, node_highest(p->guaranteed));
        else
                core_end_turn(p);
        if (p->guaranteed && (!p->turn || !turn_is_needed(p)))
                core_end_turn(p);
}

/* No entity below a node in the index of due nodes was chosen. */
bool core_begin_turn(Policy *p) {
        PolicyNode *n;

        if (p->guaranteed || p->lingering)
                return false;
        while ((n = core_first_due(p)) && n->due_ns <= p->now_ns) {
                if (node_is_stopped(n)) {
                        node_forget_due(n);
                        continue;
                }
                p->guaranteed = n;
                p->turn_until_ns = ns_add(p->now_ns, n->guarantee.quantum_ns);
                turn_set_branch(p, node_highest(n));
                return true;
        }
        return false;
}
