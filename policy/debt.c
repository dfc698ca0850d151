/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Debts: debt.h says what they are and how long they last.
 */

#include <string.h>
#include <utlist.h>

#include "debt.h"

/* --- branches --- */

bool branch_owes(const Branch *b) {
        return b->self.state == FAIR_REMEMBERED && b->self.lag < 0;
}

static bool branch_is_dormant(const Branch *b) {
        return b->parent && b->n_refs == 0;
}

static void branch_free(Branch *b) {
        fair_queue_forget(&b->parent->fair, &b->self);
        DL_DELETE(b->node->branches, b);
        b->node->policy->n_dormant--;
        b->parent->n_dormant--;
        free(b);
}

/* Frees the branch if it owes nothing, and those above that stayed for its sake. */
static void branch_gc(Branch *b) {
        while (branch_is_dormant(b) && b->n_dormant == 0 && !branch_owes(b)) {
                Branch *parent = b->parent;

                branch_free(b);
                b = parent;
        }
}

static void node_gc_branches(PolicyNode *n) {
        Branch *b, *tmp;

        DL_FOREACH_SAFE(n->branches, b, tmp)
                branch_gc(b);
}

void branch_rest(Branch *b) {
        Policy *p = b->node->policy;

        if (p->turn == b)
                p->turn = NULL; /* another branch may have the turn */
        b->apart = false;
        b->parent->n_dormant++;
        p->n_dormant++;
        if (!branch_owes(b))
                fair_queue_forget(&b->parent->fair, &b->self);
        node_gc_branches(b->node);
}

void branch_wake(Branch *b) {
        b->parent->n_dormant--;
        b->node->policy->n_dormant--;
}

/* --- nodes --- */

static bool node_owes(PolicyNode *n) {
        if (n->n_below > 0)
                return true;
        node_gc_branches(n);
        return n->branches || (n->name && quota_is_in_use(&n->quota, n->policy->now_ns));
}

static void node_unlist(PolicyNode *n) {
        Policy *p = n->policy;

        if (p->gone_next == n)
                p->gone_next = n->gone_next;
        DL_DELETE2(p->gone, n, gone_prev, gone_next);
        p->n_gone--;
        if (n->name)
                avl_remove(&p->gone_names, &n->gone_order);
        n->gone = false;
}

static void node_list(PolicyNode *n) {
        Policy *p = n->policy;

        n->gone = true;
        DL_APPEND2(p->gone, n, gone_prev, gone_next);
        p->n_gone++;
        if (n->name)
                avl_insert(&p->gone_names, &n->gone_order);
}

/* Frees a node without children. Returns its parent. */
static PolicyNode *node_bury(PolicyNode *n) {
        PolicyNode *parent = n->parent;

        while (n->branches)
                branch_free(n->branches);
        node_unlist(n);
        parent->n_below--;
        parent->policy->n_limited -= quota_is_limited(&n->quota);
        free(n->name);
        free(n);
        return parent;
}

/* Frees the node if it may be freed, and those above that stayed for its sake. */
static void node_gc(PolicyNode *n) {
        while (n->gone && !node_owes(n))
                n = node_bury(n);
}

static void debts_look(Policy *p) {
        for (unsigned i = 0; i < DEBT_LOOKS && p->gone; i++) {
                PolicyNode *n = p->gone_next ?: p->gone;

                p->gone_next = n->gone_next;
                node_gc(n);
        }
}

/* Returns the node that is gone for longest, children before their parents. A gone node with an entity below stays as
 * long as the entity. */
static PolicyNode *debts_oldest(const Policy *p) {
        PolicyNode *n;

        DL_FOREACH2(p->gone, n, gone_next)
                if (n->n_below == 0)
                        return n;
        return NULL;
}

static void debts_bound(Policy *p) {
        PolicyNode *n;

        while (p->n_gone + p->n_dormant > DEBT_MAX && (n = debts_oldest(p)))
                node_gc(node_bury(n));
}

static void node_forget_fair(PolicyNode *n) {
        Branch *b;

        DL_FOREACH(n->branches, b)
                fair_queue_forget(&b->parent->fair, &b->self);
}

void node_leave(PolicyNode *n) {
        Policy *p = n->policy;
        PolicyNodeSettings s = n->settings;

        s.min = 0;
        node_configure(n, &s);
        if (!n->name)
                node_forget_fair(n);
        node_list(n);
        node_gc(n);
        debts_look(p);
        debts_bound(p);
}

static int names_compare(const PolicyNode *parent, const char *name, const PolicyNode *n) {
        if (parent != n->parent)
                return parent < n->parent ? -1 : 1;
        return strcmp(name, n->name);
}

PolicyNode *node_come_back(PolicyNode *parent, const char *name) {
        Policy *p = parent->policy;
        AvlNode *a = name ? p->gone_names.root : NULL;

        while (a) {
                PolicyNode *n = container_of(a, PolicyNode, gone_order);
                int c = names_compare(parent, name, n);

                if (c == 0) {
                        node_unlist(n);
                        n->id = p->node_seq++;
                        if (!quota_is_in_use(&n->quota, p->now_ns)) {
                                p->n_limited -= quota_is_limited(&n->quota);
                                n->quota = (Quota){}; /* a new period begins */
                        }
                        return n;
                }
                a = c < 0 ? a->left : a->right;
        }
        return NULL;
}

static bool name_before(const AvlNode *a, const AvlNode *b) {
        const PolicyNode *x = container_of(a, const PolicyNode, gone_order),
                         *y = container_of(b, const PolicyNode, gone_order);
        int c = names_compare(x->parent, x->name, y);

        return c < 0 || (c == 0 && x->id < y->id);
}

static void avl_ignore(AvlNode *n) {
}

void debts_init(Policy *p) {
        p->gone_names = (Avl){.before = name_before, .update = avl_ignore};
}

void debts_forget(Policy *p) {
        PolicyNode *n;

        while ((n = debts_oldest(p)))
                (void) node_bury(n);
}
