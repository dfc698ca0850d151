/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The tree policy in its simplest form: an array of entities and one of nodes, searched from end to end for every
 * question. It is the oracle: the harness compares the real policy with it step by step, down to the order of
 * callbacks.
 */

#include "policy/policy.h"

extern const PolicyOps policy_naive_ops;

/* Sets the ordering of the policy with that name (naive-order.c), or else the tree's. To be called before entities are
 * made. */
void naive_set_ordering(Policy *p, const char *name);

/* What policy_latest() says, right after a dispatch. */
uint64_t naive_latest(Policy *p);

/* The entity's level. Only entities of the highest level run. */
int naive_level(const PolicyEntity *e);
