/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The AVL tree: order, balance, removal of any node, and sums over subtrees
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy/avl.h"

#define ITEMS 400U

typedef struct Item {
        AvlNode node;
        uint64_t key, seq;
        uint64_t sum; /* of the keys in the subtree */
        bool in;
} Item;

static const Item *item_of(const AvlNode *n) {
        return container_of(n, Item, node);
}

static bool item_before(const AvlNode *a, const AvlNode *b) {
        const Item *x = item_of(a), *y = item_of(b);

        return x->key < y->key || (x->key == y->key && x->seq < y->seq);
}

static void item_update(AvlNode *n) {
        Item *i = container_of(n, Item, node);

        i->sum = i->key + (n->left ? item_of(n->left)->sum : 0) + (n->right ? item_of(n->right)->sum : 0);
}

#define ITEM_TREE ((Avl){.before = item_before, .update = item_update})

static int height_of(const AvlNode *n) {
        return n ? n->height : 0;
}

/* Checks order, balance, and the sums that update() keeps. Returns the number of nodes. */
static size_t check_shape(const AvlNode *n, const AvlNode **last) {
        if (!n)
                return 0;

        int l = height_of(n->left), r = height_of(n->right);
        size_t count = 1 + check_shape(n->left, last);

        assert_true(!*last || item_before(*last, n));
        *last = n;
        count += check_shape(n->right, last);
        assert_in_range(l - r + 1, 0, 2);
        assert_int_equal(n->height, 1 + MAX(l, r));
        assert_int_equal(item_of(n)->sum,
                        item_of(n)->key + (n->left ? item_of(n->left)->sum : 0) +
                                        (n->right ? item_of(n->right)->sum : 0));
        return count;
}

static const Item *least(const Item *items) {
        const Item *best = NULL;

        for (size_t i = 0; i < ITEMS; i++)
                if (items[i].in && (!best || item_before(&items[i].node, &best->node)))
                        best = items + i;
        return best;
}

static void check_tree(const Avl *t, const Item *items) {
        const AvlNode *last = NULL;
        const Item *best = least(items);
        size_t n = 0;

        for (size_t i = 0; i < ITEMS; i++)
                n += items[i].in;
        assert_int_equal(t->n, n);
        assert_int_equal(check_shape(t->root, &last), n);
        assert_ptr_equal(avl_first(t), best ? &best->node : NULL);
}

static void test_random(void **state) {
        static Item items[ITEMS];

        for (uint64_t seed = 1; seed <= 20; seed++) {
                Random r = {.state = seed};
                Avl t = ITEM_TREE;
                unsigned more = 70;

                memset(items, 0, sizeof(items));
                for (size_t step = 0; step < 2000; step++) {
                        Item *i = items + random_range(&r, 0, ITEMS - 1);

                        if (step % 500 == 250)
                                more = 100 - more;
                        if (!i->in && random_chance(&r, more)) {
                                i->key = random_range(&r, 0, 100);
                                i->seq = step;
                                avl_insert(&t, &i->node);
                                i->in = true;
                        } else if (i->in && !random_chance(&r, more)) {
                                avl_remove(&t, &i->node);
                                i->in = false;
                        }
                        if (step % 7 == 0)
                                check_tree(&t, items);
                }
        }
}

static void test_sorts(void **state) {
        static Item items[ITEMS];
        Random r = {.state = 1};
        Avl t = ITEM_TREE;
        uint64_t last = 0;

        for (size_t i = 0; i < ITEMS; i++) {
                items[i].key = random_next(&r);
                avl_insert(&t, &items[i].node);
        }
        for (size_t i = 0; i < ITEMS; i++) {
                const Item *first = item_of(avl_first(&t));

                assert_true(first->key >= last);
                last = first->key;
                avl_remove(&t, avl_first(&t));
        }
        assert_null(t.root);
        assert_int_equal(t.n, 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_random),
                        cmocka_unit_test(test_sorts),
        };

        return cmocka_run_group_tests_name("policy-avl", tests, NULL, NULL);
}
