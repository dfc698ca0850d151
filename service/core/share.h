/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Share: a group's node in the policy of a device
 *
 * The nodes of a device mirror the groups that have entities there, and the groups above those, up to POLICY_DEPTH_MAX
 * levels. A deeper group has no node of its own: it counts as part of its ancestor in the last level, whose limits bind
 * it. A share is made for the first entity in the policy, or share, below it, and freed with the last one. The policy
 * keeps its debts under the group's name, so that a group that leaves, or is started again, still has them:
 * policy/debt.h.
 *
 * A share is limited when a Max= counts for it, its own or one above. Then the device is watched even if the entity is
 * alone on it (arbiter.h).
 */

#include "device.h"
#include "group.h"

struct Share {
        Group *group;
        Device *device;
        Share *parent;
        PolicyNode *node; /* the parent's node, when too deep for its own; NULL: the root */
        PolicyNode *next; /* in the new policy, while the device changes to it */
        bool own;         /* `node` is its own */
        bool limited;
        unsigned depth, n_refs;

        Share *device_prev, *device_next; /* parents before their children */
        Share *group_prev, *group_next;
};

int share_get(Group *g, Device *d, Share **ret);
Share *share_put(Share *s);

/* Called after the group's settings changed. */
void shares_configure(Group *g);

/* Makes the same nodes in another policy; frees them again on failure. */
int shares_copy(Device *d, const PolicyOps *ops, Policy *p);
void shares_drop(Device *d, const PolicyOps *ops);

/* Uses the nodes of the new policy from now on, and frees those of the former one. */
void shares_switch(Device *d, const PolicyOps *former);
