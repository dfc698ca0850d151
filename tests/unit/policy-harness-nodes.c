/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The harness's nodes
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy-naive.h"
#include "policy/core.h"

HarnessNode *harness_add_node(Harness *h, HarnessNode *parent, PolicyNodeSettings s) {
        HarnessNode *n = calloc(1, sizeof(*n));
        size_t n_gone = h->policy->n_gone;

        assert_non_null(n);
        CHECK(h, h->n_nodes < HARNESS_NODES_MAX);
        *n = (HarnessNode){.h = h, .parent = parent, .settings = s};
        CHECK(h, h->ops->node_new(h->policy, parent ? parent->node : NULL, &s, h->now_ns, &n->node) == 0);
        if (h->oracle)
                CHECK(h,
                                policy_naive_ops.node_new(
                                                h->oracle, parent ? parent->twin : NULL, &s, h->now_ns, &n->twin) == 0);
        h->nodes[h->n_nodes++] = n;
        n->came_back = h->policy->n_gone < n_gone;
        return n;
}

bool harness_node_is_empty(const HarnessNode *n) {
        const Harness *h = n->h;

        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->node == n)
                        return false;
        for (size_t i = 0; i < h->n_nodes; i++)
                if (h->nodes[i]->parent == n)
                        return false;
        return true;
}

void harness_remove_node(HarnessNode *n) {
        Harness *h = n->h;

        CHECK(h, !h->ops->node_free(n->node, h->now_ns));
        if (h->oracle)
                policy_naive_ops.node_free(n->twin, h->now_ns);
        for (size_t i = 0; i < h->n_nodes; i++)
                if (h->nodes[i] == n)
                        h->nodes[i] = h->nodes[--h->n_nodes];
        free(n);
}

void harness_set_node(HarnessNode *n, PolicyNodeSettings s) {
        Harness *h = n->h;

        h->ops->node_configure(n->node, &s, h->now_ns);
        if (h->oracle)
                policy_naive_ops.node_configure(n->twin, &s, h->now_ns);
        n->settings = s;
}

unsigned harness_node_depth(const HarnessNode *n) {
        unsigned depth = 0;

        for (; n; n = n->parent)
                depth++;
        return depth;
}
