/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Debt: the debts of a node that outlive it
 *
 * Going away and coming back clears no debt, even if the caller frees the node meanwhile and makes it again: a node
 * with a name (PolicyNodeSettings.name) is found again by it, below the same parent, as long as it has debts.
 *
 *   - Of a maximum: run time in the present period, and in later ones if it was more than a quota. It
 *     ends with the last of those periods. A node without it begins a period with its first use, like a
 *     new node does.
 *   - Of fair time: negative lag of a branch in the queue above. It ends when that queue forgets it (fair.h), as for
 *     a branch that is away. Positive lag is forgotten at
 *     once.
 *
 * A branch without anything below is dormant: it is in no queue, and only remembered by the one above. So is a branch
 * of a present node when the last entity has left the tier. A gone node has only dormant branches, has no minimum,
 * causes no wake-ups, and stays the parent of gone nodes below it.
 *
 * Bounds. There is no timer: when a node comes or goes, DEBT_LOOKS gone nodes are looked at, in turn, and those without
 * debts are freed. At most DEBT_MAX nodes and branches are kept; beyond that the one that is gone for longest is
 * forgotten. Finding one is O(log n).
 */

#include "node.h"

#define DEBT_MAX   1024U
#define DEBT_LOOKS 4U

/* Whether the branch has a negative lag in the queue above. */
bool branch_owes(const Branch *b);

/* Called when the last entity or branch below has left: keeps the branch if it has debts, else frees it. And when one
 * is below it again. */
void branch_rest(Branch *b);
void branch_wake(Branch *b);

/* Called when the caller frees the node: keeps it if it has debts, else frees it. */
void node_leave(PolicyNode *n);

/* Finds the gone node of that name, and makes it a present one again; NULL: none. */
PolicyNode *node_come_back(PolicyNode *parent, const char *name);

void debts_init(Policy *p);
void debts_forget(Policy *p);
