/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hierarchy: node.h defines nodes and branches, and lists their invariants.
 */

#include <utlist.h>

#include "debt.h"
#include "floor.h"
#include "node.h"
#include "rank.h"
#include "tier.h"
#include "turn.h"

/* --- branches --- */

/* Returns the node's weight among its siblings. */
static uint32_t node_weight(const PolicyNode *n) {
        const OrderOps *ops = n->policy->ordering;

        return ops->node_weight ? ops->node_weight(&n->settings) : POLICY_WEIGHT_DEFAULT;
}

static Branch *branch_find(PolicyNode *n, const Tier *t) {
        Branch *b;

        DL_FOREACH(n->branches, b)
                if (b->tier == t)
                        return b;
        return NULL;
}

/* The highest tier first. */
static void node_add_branch(PolicyNode *n, Branch *b) {
        Branch *lower;

        DL_FOREACH(n->branches, lower)
                if (lower->tier < b->tier)
                        break;
        if (lower)
                DL_PREPEND_ELEM(n->branches, lower, b);
        else
                DL_APPEND(n->branches, b);
}

static void branch_init_queue(Branch *b) {
        if (b->tier->ranked)
                rank_queue_init(&b->fair);
        else
                fair_queue_init(&b->fair);
}

static Branch *tier_root(PolicyNode *n, Tier *t) {
        if (!t->root.node) {
                t->root = (Branch){.node = n, .tier = t};
                t->ranked = n->policy->ordering->ranked && core_level_of(n->policy, t) > 0;
                branch_init_queue(&t->root);
        }
        return &t->root;
}

Branch *branch_get(PolicyNode *n, Tier *t) {
        Branch *b = n->parent ? branch_find(n, t) : tier_root(n, t), *parent;

        if (b) {
                if (b->n_refs++ == 0 && b->parent) {
                        branch_wake(b);
                        (void) branch_get(b->parent->node, t); /* it exists */
                }
                return b;
        }
        parent = branch_get(n->parent, t);
        if (!parent)
                return NULL;
        b = malloc(sizeof(*b));
        if (!b) {
                branch_put(parent);
                return NULL;
        }
        *b = (Branch){.node = n, .tier = t, .parent = parent, .n_refs = 1};
        branch_init_queue(b);
        fair_node_init(&b->self, node_weight(n));
        b->self.below = &b->fair;
        node_add_branch(n, b);
        return b;
}

void branch_put(Branch *b) {
        while (--b->n_refs == 0 && b->parent) {
                Branch *parent = b->parent;

                branch_rest(b);
                b = parent;
        }
}

static bool branch_is_here(const Branch *b) {
        return b->self.state == FAIR_HERE;
}

static bool branch_fit_ranked(Branch *b, uint32_t places) {
        if (places > 0 && branch_is_here(b))
                return rank_queue_fit(&b->parent->fair, &b->self, places);
        if (places > 0)
                rank_queue_join(&b->parent->fair, &b->self, places);
        else
                rank_queue_leave(&b->parent->fair, &b->self);
        return true;
}

/* Updates the branch's place in the parent's queue by the entities below it. Returns whether anything changed there. */
static bool branch_fit(Branch *b) {
        uint64_t slice_ns = tier_slice(b->tier);
        uint32_t places = b->node->stopped || b->apart ? 0 : b->fair.places;

        if (places == 0 && !branch_is_here(b))
                return false;
        if (b->tier->ranked)
                return branch_fit_ranked(b, places);
        if (places == 0)
                fair_queue_leave(&b->parent->fair, &b->self, slice_ns);
        else if (!branch_is_here(b))
                fair_queue_join(&b->parent->fair, &b->self, places, slice_ns);
        else if (places != b->self.places)
                fair_queue_set_places(&b->parent->fair, &b->self, places);
        else
                return false;
        return true;
}

static void node_set_places(PolicyNode *n, uint32_t places);

void branch_changed(Branch *b) {
        for (;; b = b->parent) {
                PolicyNode *n = b->node;
                uint32_t places = n->places + b->fair.places - b->counted;

                b->counted = b->fair.places;
                node_set_places(n, places);
                if (!b->parent) {
                        core_note_tier(b->tier);
                        return;
                }
                if (!branch_fit(b))
                        return;
        }
}

static void branch_refit(Branch *b) {
        if (branch_fit(b))
                branch_changed(b->parent);
}

void branch_set_apart(Branch *b, bool apart) {
        b->apart = apart;
        branch_refit(b);
}

Branch *node_highest(const PolicyNode *n) {
        Branch *b;

        DL_FOREACH(n->branches, b)
                if (b->fair.places > 0)
                        return b;
        return NULL;
}

/* --- maxima --- */

/* A refill is worth a wake-up only if an entity waits for it. */
static void node_list_refill(PolicyNode *n) {
        Policy *p = n->policy;
        bool wanted = n->stopped && n->places > 0;

        if (wanted == n->refilling)
                return;
        n->refilling = wanted;
        if (wanted) {
                (void) quota_is_spent(&n->quota, p->now_ns);
                n->refill_ns = quota_refill(&n->quota);
                avl_insert(&p->refills, &n->refill_order);
        } else
                avl_remove(&p->refills, &n->refill_order);
}

static void node_set_stopped(PolicyNode *n, bool stopped) {
        Branch *b;

        n->stopped = stopped;
        DL_FOREACH(n->branches, b)
                branch_refit(b);
        node_set_places(n, n->places);
        floor_node_changed(n);
}

void node_stop(PolicyNode *n) {
        node_set_stopped(n, true);
}

void node_go(PolicyNode *n) {
        node_set_stopped(n, false);
}

bool node_is_stopped(PolicyNode *n) {
        for (; n; n = n->parent)
                if (n->stopped && quota_is_spent(&n->quota, n->policy->now_ns))
                        return true;
        return false;
}

bool node_is_limited(const PolicyNode *n) {
        for (; n; n = n->parent)
                if (quota_is_limited(&n->quota))
                        return true;
        return false;
}

void node_check_quotas(PolicyNode *n) {
        for (; n; n = n->parent)
                if (quota_is_limited(&n->quota) && !n->stopped && quota_is_spent(&n->quota, n->policy->now_ns))
                        node_stop(n);
}

uint64_t node_quota_left(PolicyNode *n, uint32_t extra) {
        uint64_t left = NSEC_INFINITY;

        for (; n; n = n->parent)
                if (quota_is_limited(&n->quota) && !quota_is_spent(&n->quota, n->policy->now_ns)) {
                        uint64_t t = DIV_ROUND_UP(quota_left(&n->quota), n->n_chosen + extra);

                        left = MIN(left, t);
                }
        return left;
}

void core_refill(Policy *p) {
        AvlNode *first;

        while ((first = avl_first(&p->refills))) {
                PolicyNode *n = container_of(first, PolicyNode, refill_order);

                if (n->refill_ns > p->now_ns)
                        return;
                if (!quota_is_spent(&n->quota, p->now_ns)) {
                        node_go(n);
                        continue;
                }
                /* Launches in flight when the node stopped have used up the quota of the next period as well. */
                avl_remove(&p->refills, first);
                n->refill_ns = quota_refill(&n->quota);
                avl_insert(&p->refills, first);
        }
}

uint64_t core_next_refill(const Policy *p) {
        const AvlNode *first = avl_first(&p->refills);

        return first ? container_of(first, const PolicyNode, refill_order)->refill_ns : NSEC_INFINITY;
}

/* --- minima --- */

static void node_list_due(PolicyNode *n) {
        Policy *p = n->policy;

        if (n->listed_due)
                avl_remove(&p->due, &n->due_order);
        n->listed_due = guarantee_is_wanting(&n->guarantee) && n->n_chosen == 0;
        if (n->listed_due) {
                n->due_ns = guarantee_due(&n->guarantee, p->now_ns);
                avl_insert(&p->due, &n->due_order);
        }
}

PolicyNode *core_first_due(const Policy *p) {
        AvlNode *first = avl_first(&p->due);

        return first ? container_of(first, PolicyNode, due_order) : NULL;
}

void node_forget_due(PolicyNode *n) {
        guarantee_forget(&n->guarantee, n->policy->now_ns);
        node_list_due(n);
}

/* And whether there are any. */
static void node_set_places(PolicyNode *n, uint32_t places) {
        bool wanting = places > 0 && !n->stopped;

        n->places = places;
        if (n->stopped || n->refilling)
                node_list_refill(n);
        if (n->guarantee.wanting == wanting)
                return;
        if (n->guarantee.percent == 0) {
                n->guarantee.wanting = wanting;
                return;
        }
        guarantee_set_wanting(&n->guarantee, wanting, n->policy->now_ns);
        node_list_due(n);
}

void node_count_chosen(PolicyNode *n, bool chosen) {
        for (; n; n = n->parent) {
                n->n_chosen += chosen ? 1U : -1U;
                if (n->guarantee.percent > 0 && n->n_chosen == (chosen ? 1U : 0U))
                        node_list_due(n);
        }
}

void node_charge(PolicyNode *n, uint64_t from_ns, uint64_t ns, NodeUse use, bool by_turn) {
        for (; n; n = n->parent) {
                if (use != NODE_KEPT && quota_is_limited(&n->quota))
                        quota_charge(&n->quota, from_ns, ns);
                if (use != NODE_OWED && n->guarantee.percent > 0)
                        guarantee_charge(&n->guarantee, ns, by_turn, n->policy->now_ns);
        }
}

/* --- nodes --- */

static void avl_ignore(AvlNode *n) {
}

void node_init(PolicyNode *n, Policy *p, PolicyNode *parent) {
        *n = (PolicyNode){
                        .policy = p,
                        .parent = parent,
                        .depth = parent ? parent->depth + 1 : 0,
                        .id = p->node_seq++,
                        .settings = POLICY_NODE_SETTINGS_DEFAULT,
        };
}

void node_configure_turns(PolicyNode *n) {
        Policy *p = n->policy;
        uint64_t quantum_ns = n->settings.period_ns / 100 * n->settings.min;

        if (n->guarantee.percent == 0 && n->settings.min > 0)
                DL_APPEND2(p->guarantees, n, guarantee_prev, guarantee_next);
        if (n->guarantee.percent > 0 && n->settings.min == 0)
                DL_DELETE2(p->guarantees, n, guarantee_prev, guarantee_next);
        guarantee_configure(&n->guarantee, n->settings.min, MIN(quantum_ns, p->config.timeslice_ns), p->now_ns);
        node_list_due(n);
        if (p->guaranteed == n && n->settings.min == 0)
                core_end_turn(p);
}

static void node_configure_weight(PolicyNode *n) {
        uint32_t weight = node_weight(n);
        Branch *b;

        DL_FOREACH(n->branches, b) {
                if (b->self.weight != weight && !b->tier->ranked)
                        fair_queue_reweight(&b->parent->fair, &b->self, weight);
                b->self.weight = weight;
        }
}

/* Applies the new maximum at once to the time that was run in this period. */
static void node_configure_quota(PolicyNode *n) {
        if (n->stopped)
                node_go(n);
        n->policy->n_limited -= quota_is_limited(&n->quota);
        quota_configure(&n->quota, n->settings.max, n->settings.period_ns, n->policy->now_ns);
        n->policy->n_limited += quota_is_limited(&n->quota);
        if (quota_is_limited(&n->quota) && quota_is_spent(&n->quota, n->policy->now_ns))
                node_stop(n);
}

void node_configure(PolicyNode *n, const PolicyNodeSettings *s) {
        n->settings = (PolicyNodeSettings){
                        .weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX),
                        .max = MIN(s->max, POLICY_MAX_MAX),
                        .min = MIN(s->min, POLICY_MIN_MAX),
                        .period_ns = CLAMP(s->period_ns, POLICY_PERIOD_MIN, POLICY_PERIOD_MAX),
                        .utilization = CLAMP(s->utilization, 1U, POLICY_UTILIZATION_MAX),
                        .nice = CLAMP(s->nice, POLICY_NICE_MIN, POLICY_NICE_MAX),
        };
        node_configure_weight(n);
        node_configure_quota(n);
        node_configure_turns(n);
}

/* --- indices --- */

static bool refill_before(const AvlNode *a, const AvlNode *b) {
        const PolicyNode *x = container_of(a, const PolicyNode, refill_order),
                         *y = container_of(b, const PolicyNode, refill_order);

        return x->refill_ns < y->refill_ns || (x->refill_ns == y->refill_ns && x->id < y->id);
}

static bool due_before(const AvlNode *a, const AvlNode *b) {
        const PolicyNode *x = container_of(a, const PolicyNode, due_order),
                         *y = container_of(b, const PolicyNode, due_order);

        return x->due_ns < y->due_ns || (x->due_ns == y->due_ns && x->id < y->id);
}

void core_indices_init(Policy *p) {
        p->refills = (Avl){.before = refill_before, .update = avl_ignore};
        p->due = (Avl){.before = due_before, .update = avl_ignore};
}
