/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The tree policy once more, as simply as it can be said: an array of entities and one of nodes, looked through from
 * end to end for every question. It is the oracle that the real one is compared with, step by step, down to the order
 * of its callbacks.
 */

#include "policy/policy.h"

extern const PolicyOps policy_naive_ops;

/* The ordering of the policy of that name (naive-order.c); that of the tree where there is none. Before any entity. */
void naive_set_ordering(Policy *p, const char *name);

/* Only those of the highest level run. */
int naive_level(const PolicyEntity *e);
