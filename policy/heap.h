/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * An intrusive priority queue: a leftist heap
 *
 * The node lives in what is queued, so nothing is ever allocated and nothing can fail. In a leftist heap the rank of a
 * node is the length of its shortest way down to a missing child, the shorter way is always the right one, and so the
 * way down to the right has at most log2(n + 1) nodes. All work follows such ways:
 *
 *   insert   merges two of them.
 *   remove   merges the two below the node, then corrects ranks upwards until one did not change. A rank that did change
 *            is one more than its child's new rank, and ranks are at most log2(n + 1): so that walk is as short, also
 *            where the tree above is deep.
 *
 * The order is the caller's; equal nodes come out in no particular order, so an order that matters must be total.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct HeapNode HeapNode;

struct HeapNode {
        HeapNode *parent, *left, *right;
        unsigned rank;
};

/* Must `a` come out before `b`? */
typedef bool (*HeapBefore)(const HeapNode *a, const HeapNode *b);

typedef struct Heap {
        HeapNode *root; /* the first; NULL when empty */
        size_t n;
        HeapBefore before;
} Heap;

#define HEAP_INIT(f) ((Heap){.before = (f)})

/* The node must be in no heap. */
void heap_insert(Heap *h, HeapNode *node);

/* The node must be in this heap. */
void heap_remove(Heap *h, HeapNode *node);
