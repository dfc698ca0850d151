/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Debts: what of a node outlives it
 *
 * Going away and coming back washes nothing off, also where the caller frees the node meanwhile and makes it anew: a
 * node that has a name (PolicyNodeSettings.name) is found again by that, below the same parent, as long as it owes
 * something.
 *
 *   - Of a maximum: what was used of the period that goes on, and of later ones where it was more than a quota. It is
 *     over with the last of those periods. Who owes nothing of that any more begins a period with its first use, as a
 *     new node does.
 *   - Of fair time: a branch that is below 0 in the queue above. It is over when that queue forgets it (fair.h): what
 *     it would keep of one that is away, it keeps of one that is gone. That it was owed something is forgotten at
 *     once.
 *
 * A branch without anything below is dormant: it is in no queue, and only remembered by the one above. So are the
 * branches of a node that lives on, when the last entity leaves the tier. A node that is gone has dormant branches
 * only; it has no minimum, wakes nobody, and stays above others that are gone.
 *
 * Bounds. Nothing is waited for: who comes or goes looks at DEBT_LOOKS of those that are gone, in turn, and frees what
 * owes nothing. No more than DEBT_MAX nodes and branches are kept, the latest ones; then the one that is gone for
 * longest is forgotten. Finding one is O(log n).
 */

#include "node.h"

#define DEBT_MAX   1024U
#define DEBT_LOOKS 4U

/* Below it in the queue above. */
bool branch_owes(const Branch *b);

/* The last that was below it has left: it stays for what it owes, or goes. And somebody is there again. */
void branch_rest(Branch *b);
void branch_wake(Branch *b);

/* The caller has freed it: it stays for what it owes, or goes. */
void node_leave(PolicyNode *n);

/* The one of that name, which lives again; NULL: there is none. */
PolicyNode *node_come_back(PolicyNode *parent, const char *name);

/* What was below a node that is gone has left. */
void node_left(PolicyNode *n);

void debts_init(Policy *p);
void debts_forget(Policy *p);
