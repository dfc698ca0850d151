/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Leftist heap; why it is fast enough stands in heap.h.
 */

#include "heap.h"

/* One step of work (a comparison, or a rank corrected): what the bench counts instead of time. */
#ifndef HEAP_STEP
#        define HEAP_STEP() ((void) 0)
#endif

static unsigned heap_rank(const HeapNode *n) {
        return n ? n->rank : 0;
}

/* Puts the shorter way to the right. Returns whether the rank changed. */
static bool heap_node_settle(HeapNode *n) {
        unsigned before = n->rank;

        if (heap_rank(n->left) < heap_rank(n->right)) {
                HeapNode *t = n->left;

                n->left = n->right;
                n->right = t;
        }
        n->rank = heap_rank(n->right) + 1;
        return n->rank != before;
}

/* The depth is that of the two right-hand ways together, so at most 2 * log2(n + 1). */
static HeapNode *heap_merge(const Heap *h, HeapNode *a, HeapNode *b) {
        if (!a || !b)
                return a ? a : b;

        HEAP_STEP();
        if (h->before(b, a)) {
                HeapNode *t = a;

                a = b;
                b = t;
        }
        a->right = heap_merge(h, a->right, b);
        a->right->parent = a;
        (void) heap_node_settle(a);
        return a;
}

void heap_insert(Heap *h, HeapNode *node) {
        *node = (HeapNode){.rank = 1};
        h->root = heap_merge(h, h->root, node);
        h->root->parent = NULL;
        h->n++;
}

void heap_remove(Heap *h, HeapNode *node) {
        HeapNode *below = heap_merge(h, node->left, node->right), *above = node->parent;

        if (below)
                below->parent = above;
        if (!above)
                h->root = below;
        else if (above->left == node)
                above->left = below;
        else
                above->right = below;
        h->n--;

        for (; above && heap_node_settle(above); above = above->parent)
                HEAP_STEP();
        *node = (HeapNode){};
}
