/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * AVL tree: avl.h says why it is fast enough.
 */

#include "avl.h"

/* One step of work: a node visited on the way down, or corrected on the way back. The benchmark counts these in place
 * of time. */
#ifndef AVL_STEP
#        define AVL_STEP() ((void) 0)
#endif

static int avl_height(const AvlNode *n) {
        return n ? n->height : 0;
}

/* Positive: the left side is higher. */
static int avl_lean(const AvlNode *n) {
        return avl_height(n->left) - avl_height(n->right);
}

static void avl_fix(const Avl *t, AvlNode *n) {
        int l = avl_height(n->left), r = avl_height(n->right);

        n->height = 1 + (l > r ? l : r);
        t->update(n);
}

static AvlNode *avl_turn_right(const Avl *t, AvlNode *n) {
        AvlNode *top = n->left;

        n->left = top->right;
        top->right = n;
        avl_fix(t, n);
        avl_fix(t, top);
        return top;
}

static AvlNode *avl_turn_left(const Avl *t, AvlNode *n) {
        AvlNode *top = n->right;

        n->right = top->left;
        top->left = n;
        avl_fix(t, n);
        avl_fix(t, top);
        return top;
}

/* Returns the subtree's new top, after the height of one of its sides has changed by one. */
static AvlNode *avl_settle(const Avl *t, AvlNode *n) {
        int lean = avl_lean(n);

        AVL_STEP();
        if (lean > 1) {
                if (avl_lean(n->left) < 0)
                        n->left = avl_turn_left(t, n->left);
                return avl_turn_right(t, n);
        }
        if (lean < -1) {
                if (avl_lean(n->right) > 0)
                        n->right = avl_turn_right(t, n->right);
                return avl_turn_left(t, n);
        }
        avl_fix(t, n);
        return n;
}

static AvlNode *avl_put(const Avl *t, AvlNode *at, AvlNode *n) {
        if (!at)
                return n;

        AVL_STEP();
        if (t->before(n, at))
                at->left = avl_put(t, at->left, n);
        else
                at->right = avl_put(t, at->right, n);
        return avl_settle(t, at);
}

static AvlNode *avl_take_first(const Avl *t, AvlNode *at, AvlNode **ret) {
        if (!at->left) {
                *ret = at;
                return at->right;
        }

        AVL_STEP();
        at->left = avl_take_first(t, at->left, ret);
        return avl_settle(t, at);
}

static AvlNode *avl_take(const Avl *t, AvlNode *at, AvlNode *n) {
        AvlNode *heir;

        AVL_STEP();
        if (at != n) {
                if (t->before(n, at))
                        at->left = avl_take(t, at->left, n);
                else
                        at->right = avl_take(t, at->right, n);
                return avl_settle(t, at);
        }
        if (!n->left || !n->right)
                return n->left ? n->left : n->right;

        AvlNode *right = avl_take_first(t, n->right, &heir);
        heir->left = n->left;
        heir->right = right;
        return avl_settle(t, heir);
}

void avl_insert(Avl *t, AvlNode *n) {
        *n = (AvlNode){};
        avl_fix(t, n);
        t->root = avl_put(t, t->root, n);
        t->n++;
}

void avl_remove(Avl *t, AvlNode *n) {
        t->root = avl_take(t, t->root, n);
        t->n--;
        *n = (AvlNode){};
}

AvlNode *avl_first(const Avl *t) {
        AvlNode *n = t->root;

        while (n && n->left)
                n = n->left;
        return n;
}
