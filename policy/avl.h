/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * An intrusive, augmented, ordered tree (AVL)
 *
 * The node lives in what is ordered, so nothing is ever allocated and nothing can fail. The heights of a node's two
 * subtrees differ by at most one, so that a tree of n nodes is at most 1.44 * log2(n + 2) high; insert and remove walk
 * one way down and correct it on the way back, and cost that much and no more.
 *
 * `update` is called for a node whenever what is below it has changed, children first: it is where the owner keeps
 * what it wants to know of a whole subtree. The order must be total, and must not change while a node is in the tree.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct AvlNode AvlNode;

struct AvlNode {
        AvlNode *left, *right;
        int height;
};

typedef struct Avl {
        AvlNode *root;
        size_t n;
        bool (*before)(const AvlNode *a, const AvlNode *b);
        void (*update)(AvlNode *n);
} Avl;

/* The node must be in no tree. */
void avl_insert(Avl *t, AvlNode *n);

/* The node must be in this tree. */
void avl_remove(Avl *t, AvlNode *n);

/* The one before all others; NULL when empty. */
AvlNode *avl_first(const Avl *t);
