/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Active window first (AWF of XSched, Shen et al., OSDI 2025): first the program that a person is looking at
 *
 * While an active entity has work, only active ones run; otherwise all others do. Equals take turns of a time slice.
 * The caller says which entities are active (PolicySettings.active).
 */

#include "core.h"

static void awf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->active ? 1 : 0;
}

DEFINE_POLICY(awf, "Active window first: what a person looks at goes before all others", .hint = awf_hint);
