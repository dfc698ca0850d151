/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Charges the time that has passed
 */

#include <utlist.h>

#include "charge.h"
#include "drain.h"
#include "node.h"
#include "ordering.h"
#include "tier.h"
#include "usage.h"

static void fair_advance_tree(FairQueue *q, uint32_t slots, uint64_t ns) {
        FairNode *n;

        fair_queue_advance(q, slots, ns);
        DL_FOREACH(q->running, n)
                if (n->below && n->used > n->blocked)
                        fair_advance_tree(n->below, n->used, ns);
}

/* Charges the branch that had the turn of a minimum: inside it as any run time, and in the queues above it as time that
 * it ran without being chosen. */
static void turn_advance(Policy *p, uint64_t ns) {
        const FairNode *runner = p->turn->fair.running;

        if (!runner || runner->used == runner->blocked)
                return;
        fair_advance_tree(&p->turn->fair, 1, ns);
        for (Branch *b = p->turn; b->parent; b = b->parent)
                fair_queue_charge(&b->parent->fair, &b->self, ns, tier_slice(b->tier));
}

static void fair_advance(Policy *p, uint64_t ns) {
        if (p->active && !p->active->ranked)
                fair_advance_tree(&p->active->root.fair, p->slots, ns);
        if (p->turn && !p->turn->tier->ranked)
                turn_advance(p, ns);
}

static void core_check_quotas(Policy *p) {
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                node_check_quotas(e->node);
        if (p->owed)
                node_check_quotas(p->owed->node);
}

static void core_charge(Policy *p, uint64_t from_ns, uint64_t ns) {
        bool nodes = core_charges_nodes(p);
        PolicyEntity *e;

        DL_FOREACH2(p->chosen, e, chosen_next)
                if (!e->blocked) {
                        if (nodes)
                                node_charge(e->node, from_ns, ns, e->kept ? NODE_KEPT : NODE_RAN, e->by_turn);
                        patience_earn(&e->patience, ns, p->config.linger_ns);
                }
        if (nodes && p->owed && !p->owed->chosen && !p->owed->blocked)
                node_charge(p->owed->node, from_ns, ns, NODE_OWED, false);
        if (p->n_limited > 0)
                core_check_quotas(p);
}

/* Advances the time under the present grants; the part up to `charged_ns` is charged to entities. */
static void core_step(Policy *p, uint64_t to_ns, uint64_t charged_ns) {
        uint64_t from_ns = p->now_ns, ns = ns_sub(MIN(to_ns, charged_ns), from_ns);
        bool tails;

        if (to_ns <= from_ns)
                return;
        core_account(p, to_ns);
        if (p->n_awaiting > 0 && core_turn_awaits(p))
                p->turn_until_ns += to_ns - from_ns;
        p->now_ns = to_ns;
        if (ns == 0)
                return;
        tails = core_has_tails(p);
        if (tails)
                core_block(p);
        fair_advance(p, ns);
        if (p->ordering->charge)
                core_charge_chosen(p, ns);
        if (p->draining)
                core_charge_tails(p, from_ns, ns);
        core_charge(p, from_ns, ns);
        if (tails)
                core_unblock(p);
}

void core_advance(Policy *p, uint64_t now_ns) {
        uint64_t charged_ns = now_ns;

        if (ns_sub(now_ns, p->wake_ns) > POLICY_LATE_MAX)
                charged_ns = MIN(now_ns, ns_add(p->wake_ns, p->config.timeslice_ns));
        while (p->draining && p->draining->drain_until_ns <= now_ns) {
                PolicyEntity *e = p->draining;

                core_step(p, e->drain_until_ns, charged_ns);
                entity_drain_end(e);
        }
        core_step(p, now_ns, charged_ns);
}
