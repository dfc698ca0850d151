/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Active window first (AWF of XSched, Shen et al., OSDI 2025): what the person in front of the screen looks at
 *
 * While somebody who is active has work nobody else runs; else all others do. Equals take turns of a time slice. Who is
 * active the caller knows (PolicySettings.active).
 */

#include "core.h"

static void awf_hint(Order *o, OrderEntity *e) {
        e->level = e->settings->active ? 1 : 0;
}

DEFINE_POLICY(awf, "Active window first: what somebody is looking at before all others", .hint = awf_hint);
