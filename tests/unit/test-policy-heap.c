/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The leftist heap: order, arbitrary removal, and its shape
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy/heap.h"

#define ITEMS 400U

typedef struct Item {
        HeapNode node;
        uint64_t key;
        bool in;
} Item;

static bool item_before(const HeapNode *a, const HeapNode *b) {
        return container_of(a, Item, node)->key < container_of(b, Item, node)->key;
}

static unsigned rank_of(const HeapNode *n) {
        return n ? n->rank : 0;
}

/* Returns the number of nodes. */
static size_t check_shape(const HeapNode *n, const HeapNode *parent) {
        if (!n)
                return 0;
        assert_ptr_equal(n->parent, parent);
        if (parent)
                assert_false(item_before(n, parent));
        assert_true(rank_of(n->left) >= rank_of(n->right));
        assert_int_equal(n->rank, rank_of(n->right) + 1);
        return 1 + check_shape(n->left, n) + check_shape(n->right, n);
}

static const Item *least(const Item *items) {
        const Item *best = NULL;

        for (size_t i = 0; i < ITEMS; i++)
                if (items[i].in && (!best || items[i].key < best->key))
                        best = items + i;
        return best;
}

static void check_heap(const Heap *h, const Item *items) {
        const Item *best = least(items);
        size_t n = 0;

        for (size_t i = 0; i < ITEMS; i++)
                n += items[i].in;
        assert_int_equal(h->n, n);
        assert_int_equal(check_shape(h->root, NULL), n);
        if (best)
                assert_int_equal(container_of(h->root, Item, node)->key, best->key);
        else
                assert_null(h->root);
}

static void test_random(void **state) {
        static Item items[ITEMS];

        for (uint64_t seed = 1; seed <= 20; seed++) {
                Random r = {.state = seed};
                Heap h = HEAP_INIT(item_before);
                unsigned more = 70;

                memset(items, 0, sizeof(items));
                for (size_t step = 0; step < 2000; step++) {
                        Item *i = items + random_range(&r, 0, ITEMS - 1);

                        if (step % 500 == 250)
                                more = 100 - more;
                        if (!i->in && random_chance(&r, more)) {
                                i->key = random_range(&r, 0, 1000);
                                heap_insert(&h, &i->node);
                                i->in = true;
                        } else if (i->in && !random_chance(&r, more)) {
                                heap_remove(&h, &i->node);
                                i->in = false;
                        }
                        if (step % 7 == 0)
                                check_heap(&h, items);
                }
        }
}

static void test_sorts(void **state) {
        static Item items[ITEMS];
        Random r = {.state = 1};
        Heap h = HEAP_INIT(item_before);
        uint64_t last = 0;

        for (size_t i = 0; i < ITEMS; i++) {
                items[i].key = random_next(&r);
                heap_insert(&h, &items[i].node);
        }
        for (size_t i = 0; i < ITEMS; i++) {
                Item *first = container_of(h.root, Item, node);

                assert_true(first->key >= last);
                last = first->key;
                heap_remove(&h, h.root);
        }
        assert_null(h.root);
        assert_int_equal(h.n, 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_random),
                        cmocka_unit_test(test_sorts),
        };

        return cmocka_run_group_tests_name("policy-heap", tests, NULL, NULL);
}
