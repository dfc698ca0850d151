/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The default policy, `tree`: strict priorities; those of one priority share by weight over the tree of nodes, as
 * fair.h says (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995)
 */

#include "core.h"

static uint32_t tree_weight(const PolicySettings *s) {
        return s->weight;
}

static uint32_t tree_node_weight(const PolicyNodeSettings *s) {
        return s->weight;
}

static void tree_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->priority;
}

DEFINE_POLICY(tree, "Strict priorities; equals share by weight over the tree of cgroups", .weight = tree_weight,
                .node_weight = tree_node_weight, .hint = tree_hint);
